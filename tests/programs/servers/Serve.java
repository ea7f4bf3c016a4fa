import com.sun.net.httpserver.HttpServer;
import java.net.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.util.concurrent.Executors;

/** Servers in Java: `Serve KIND PORT`. selector and threads echo streams, http echoes posts. */
public class Serve {
    static volatile Object kept;

    public static void main(String[] words) throws Exception {
        Thread churn = new Thread(Serve::churn);
        churn.setDaemon(true);
        churn.start();
        InetSocketAddress address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[1]));
        switch (words[0]) {
            case "selector" -> select(address);
            case "threads" -> threads(address);
            default -> http(address);
        }
    }

    /** Garbage for the collector, and null dereferences, which the JIT leaves to the processor's fault. */
    static void churn() {
        int[] nothing = null;
        for (long turn = 0; ; turn++) {
            kept = new byte[100_000];
            try {
                nothing[0]++;
            } catch (NullPointerException expected) {
                if (turn % 50 == 0) LockSupport.pause();
            }
        }
    }

    static class LockSupport {
        static void pause() {
            java.util.concurrent.locks.LockSupport.parkNanos(1_000_000);
        }
    }

    static void select(InetSocketAddress address) throws Exception {
        Selector selector = Selector.open();
        ServerSocketChannel listener = ServerSocketChannel.open().bind(address);
        listener.configureBlocking(false);
        listener.register(selector, SelectionKey.OP_ACCEPT);
        while (true) {
            selector.select();
            for (SelectionKey key : selector.selectedKeys()) {
                if (key.isAcceptable()) {
                    SocketChannel channel = listener.accept();
                    channel.configureBlocking(false);
                    channel.register(selector, SelectionKey.OP_READ, ByteBuffer.allocateDirect(1 << 16));
                } else {
                    echo(key);
                }
            }
            selector.selectedKeys().clear();
        }
    }

    /** One buffer in hand for each connection: what was read is written before more is read. */
    static void echo(SelectionKey key) throws Exception {
        SocketChannel channel = (SocketChannel) key.channel();
        ByteBuffer buffer = (ByteBuffer) key.attachment();
        try {
            if (key.isReadable()) {
                buffer.clear();
                if (channel.read(buffer) < 0) {
                    channel.close();
                    return;
                }
                buffer.flip();
            }
            channel.write(buffer);
            key.interestOps(buffer.hasRemaining() ? SelectionKey.OP_WRITE : SelectionKey.OP_READ);
        } catch (java.io.IOException gone) {
            channel.close();
        }
    }

    static void threads(InetSocketAddress address) throws Exception {
        ServerSocket listener = new ServerSocket();
        listener.bind(address);
        while (true) {
            Socket socket = listener.accept();
            new Thread(() -> {
                try (socket) {
                    socket.getInputStream().transferTo(socket.getOutputStream());
                } catch (java.io.IOException gone) {
                    // The other end has left.
                }
            }).start();
        }
    }

    static void http(InetSocketAddress address) throws Exception {
        HttpServer server = HttpServer.create(address, 50);
        server.setExecutor(Executors.newFixedThreadPool(4));
        server.createContext("/", exchange -> {
            byte[] body = exchange.getRequestBody().readAllBytes();
            exchange.sendResponseHeaders(200, body.length == 0 ? -1 : body.length);
            exchange.getResponseBody().write(body);
            exchange.close();
        });
        server.start();
    }
}
