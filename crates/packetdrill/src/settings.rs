//! Where settings come from: the text given with `--so_flags`, and the file that the stubs for `sysctl` write.

use ringway_tcp::Config;
use ringway_tcp::config::{ConfigError, Sizes};

/// What a script's run is set to.
#[derive(Clone, Debug, Default)]
pub(crate) struct Settings {
    pub(crate) config: Config,
    /// A silent stack ends the process, as packetdrill has no other way out; our own tests have one.
    pub(crate) silence_is_error: bool,
}

impl Settings {
    /// The defaults that scripts take for granted: buffers that show a first window of 65535 with scale 8.
    pub(crate) fn new(flags: &str) -> Settings {
        let mut settings = Settings::default();
        settings.config.tcp_rmem = Sizes { min: 4096, default: 540_000, max: 15_728_640 };
        settings.config.tcp_wmem = Sizes { min: 4096, default: 262_144, max: 4_194_304 };
        for word in flags.split([' ', ',', '\n']).filter(|word| !word.is_empty()) {
            match word {
                "silence=exit" => settings.silence_is_error = false,
                "silence=error" => settings.silence_is_error = true,
                word => settings.apply(word),
            }
        }
        settings
    }

    /// Applies `name=value` lines; the last of each name holds.
    pub(crate) fn apply_lines(&mut self, text: &str) {
        text.lines().map(str::trim).filter(|line| !line.is_empty()).for_each(|line| self.apply(line));
    }

    fn apply(&mut self, line: &str) {
        let Some((name, value)) = line.split_once('=') else {
            return eprintln!("ringway_packetdrill: `{line}` is not of the form name=value; ignored");
        };
        let name = name.trim().trim_start_matches("/proc/sys/").replace('/', ".");
        match self.config.set(&name, value.trim().trim_matches('"')) {
            Ok(()) => {}
            Err(ConfigError::Unknown(_)) => {
                eprintln!("ringway_packetdrill: the engine has no setting `{name}`; ignored")
            }
            Err(error) => eprintln!("ringway_packetdrill: {error}; ignored"),
        }
    }
}

/// The settings file's text, or nothing if there is none.
pub(crate) fn file_text() -> String {
    std::env::var_os("RINGWAY_SYSCTL_FILE").and_then(|path| std::fs::read_to_string(path).ok()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_taken_as_sysctl_and_as_proc_write_them() {
        let mut settings = Settings::new("mtu=1400, silence=error tcp_sack=0");
        assert!(settings.silence_is_error && !settings.config.tcp_sack);
        assert_eq!(settings.config.mtu, 1400);
        let text = "net.ipv4.tcp_wmem=\"1 2 3\"\n/proc/sys/net/ipv4/tcp_timestamps=0\nnet.ipv4.tcp_fack=0\nnonsense\n";
        settings.apply_lines(text);
        assert_eq!(settings.config.tcp_wmem, Sizes { min: 1, default: 2, max: 3 });
        assert_eq!(settings.config.tcp_timestamps, 0);
    }
}
