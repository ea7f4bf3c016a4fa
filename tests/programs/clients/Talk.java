import java.io.*;
import java.net.*;
import java.net.http.*;
import java.nio.ByteBuffer;
import java.nio.channels.*;
import java.security.MessageDigest;
import java.util.*;
import java.util.concurrent.*;

/** A client in Java: `Talk PORT KIND [--hold]`. sockets and channels talk to an echo server, http posts. */
public class Talk {
    static final int STREAMS = 3, STREAM_BYTES = 8 << 20, ROUND_TRIPS = 130;
    static MessageDigest ledger;
    static InetSocketAddress address;

    interface Trip {
        byte[] send(byte[] data) throws Exception;
    }

    public static void main(String[] words) throws Exception {
        address = new InetSocketAddress("127.0.0.1", Integer.parseInt(words[0]));
        ledger = MessageDigest.getInstance("SHA-256");
        boolean hold = List.of(words).contains("--hold");
        switch (words[1]) {
            case "sockets" -> sockets(hold);
            case "channels" -> channels(hold);
            default -> http(hold);
        }
        System.out.println("digest " + HexFormat.of().formatHex(ledger.digest()));
    }

    static byte[] content(int seed, int length) {
        byte[] data = new byte[length];
        new Random(seed).nextBytes(data);
        return data;
    }

    static void check(byte[] got, byte[] wanted, String what) {
        if (!Arrays.equals(got, wanted)) throw new IllegalStateException(what + " differs");
    }

    static void middle(boolean hold) throws IOException {
        if (hold) {
            System.out.println("half");
            System.in.read();
        }
    }

    static void roundTrips(Trip trip) throws Exception {
        for (int n = 0; n < ROUND_TRIPS; n++) {
            byte[] data = content(n, n < 30 ? 1 : (int) Math.pow(2, 18.0 * (n - 29) / 100));
            byte[] back = trip.send(data);
            check(back, data, "round trip " + n);
            ledger.update(back);
        }
    }

    static void sockets(boolean hold) throws Exception {
        try (Socket socket = new Socket(address.getAddress(), address.getPort())) {
            socket.setTcpNoDelay(true);
            Trip trip = data -> {
                socket.getOutputStream().write(data);
                return socket.getInputStream().readNBytes(data.length);
            };
            roundTrips(trip);
            middle(hold);
            roundTrips(trip);
        }
        ExecutorService pool = Executors.newCachedThreadPool();
        List<Future<byte[]>> streams = new ArrayList<>();
        for (int n = 0; n < STREAMS; n++) {
            int number = n;
            streams.add(pool.submit(() -> stream(number, pool)));
        }
        for (Future<byte[]> stream : streams) ledger.update(stream.get());
        pool.shutdown();
    }

    static byte[] stream(int number, ExecutorService pool) throws Exception {
        byte[] data = content(1000 + number, STREAM_BYTES);
        try (Socket socket = new Socket(address.getAddress(), address.getPort())) {
            Future<?> sender = pool.submit(() -> {
                socket.getOutputStream().write(data);
                return null;
            });
            byte[] back = socket.getInputStream().readNBytes(data.length);
            sender.get();
            check(back, data, "stream " + number);
            return back;
        }
    }

    /** Non-blocking, by a selector: writes and reads at once. */
    static void channels(boolean hold) throws Exception {
        try (SocketChannel channel = SocketChannel.open(address); Selector selector = Selector.open()) {
            channel.configureBlocking(false);
            channel.register(selector, SelectionKey.OP_READ | SelectionKey.OP_WRITE);
            Trip trip = data -> exchange(channel, selector, data);
            roundTrips(trip);
            middle(hold);
            roundTrips(trip);
            ledger.update(trip.send(content(5, STREAM_BYTES)));
        }
    }

    static byte[] exchange(SocketChannel channel, Selector selector, byte[] data) throws Exception {
        ByteBuffer out = ByteBuffer.wrap(data), in = ByteBuffer.allocate(data.length);
        SelectionKey key = channel.keyFor(selector);
        while (in.hasRemaining()) {
            key.interestOps(SelectionKey.OP_READ | (out.hasRemaining() ? SelectionKey.OP_WRITE : 0));
            selector.select();
            selector.selectedKeys().clear();
            if (key.isWritable()) channel.write(out);
            if (key.isReadable() && channel.read(in) < 0) throw new EOFException("end of stream");
        }
        return in.array();
    }

    static void http(boolean hold) throws Exception {
        HttpClient client = HttpClient.newBuilder().version(HttpClient.Version.HTTP_1_1).build();
        URI uri = URI.create("http://127.0.0.1:" + address.getPort() + "/");
        Trip trip = data -> {
            HttpRequest request = HttpRequest.newBuilder(uri).timeout(java.time.Duration.ofSeconds(30))
                .POST(HttpRequest.BodyPublishers.ofByteArray(data)).build();
            return client.send(request, HttpResponse.BodyHandlers.ofByteArray()).body();
        };
        roundTrips(trip);
        middle(hold);
        roundTrips(trip);
    }
}
