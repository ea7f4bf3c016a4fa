use super::*;
use crate::tcp::SeqNumber;
use proptest::prelude::*;

fn written(options: &Options) -> Vec<u8> {
    let mut bytes = vec![0xee; options.wire_len()];
    options.write(&mut bytes);
    bytes
}

const TIMESTAMPS: Timestamps = Timestamps { value: 0x0102_0304, echo: 0x0506_0708 };

fn blocks(count: u32) -> SackBlocks {
    let mut sack = SackBlocks::EMPTY;
    for n in 0..count {
        assert!(sack.push(SackBlock { left: SeqNumber(n), right: SeqNumber(n + 256) }));
    }
    sack
}

#[test]
fn a_syn_is_laid_out_as_linux_does() {
    let syn = Options { mss: Some(1460), window_scale: Some(8), sack_permitted: true, ..Options::NONE };
    assert_eq!(written(&syn), [2, 4, 0x05, 0xb4, 1, 1, 4, 2, 1, 3, 3, 8]);
    let with_timestamps = Options { timestamps: Some(TIMESTAMPS), ..syn };
    let expected = [2, 4, 0x05, 0xb4, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 8];
    assert_eq!(written(&with_timestamps), expected);
}

#[test]
fn an_established_segment_is_laid_out_as_linux_does() {
    let options = Options { timestamps: Some(TIMESTAMPS), ..Options::NONE };
    assert_eq!(written(&options), [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
    assert_eq!(Timestamps::only(&written(&options)), Some(TIMESTAMPS));
    let options = Options { sack: blocks(1), ..options };
    let expected = [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1, 5, 10, 0, 0, 0, 0, 0, 0, 1, 0];
    assert_eq!(written(&options), expected);
    assert_eq!(Timestamps::only(&written(&options)), None);
}

#[test]
fn fast_open_comes_last_and_is_padded() {
    let cookie = FastOpen::with_cookie(&[1, 2, 3, 4, 5, 6, 7, 8], false);
    let options = Options { mss: Some(1000), fast_open: cookie, ..Options::NONE };
    assert_eq!(written(&options), [2, 4, 3, 0xe8, 34, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 1]);
    let options = Options { fast_open: Some(FastOpen::request(true)), ..Options::NONE };
    assert_eq!(written(&options), [254, 4, 0xf9, 0x89]);
    let options = Options { fast_open: Some(FastOpen::request(false)), ..Options::NONE };
    assert_eq!(written(&options), [34, 2, 1, 1]);
}

#[test]
fn cookies_have_4_to_16_bytes_an_even_number() {
    for len in 0..20 {
        let fits = (4..=16).contains(&len) && len % 2 == 0;
        assert_eq!(FastOpen::with_cookie(&vec![9; len], false).is_some(), fits, "{len}");
    }
}

#[test]
fn there_is_room_for_four_blocks_or_three_beside_timestamps() {
    assert_eq!(Options::NONE.sack_room(), 4);
    let options = Options { timestamps: Some(TIMESTAMPS), ..Options::NONE };
    assert_eq!(options.sack_room(), 3);
    assert_eq!(Options { sack: blocks(3), ..options }.wire_len(), 40);
    assert_eq!(Options { sack: blocks(4), ..Options::NONE }.wire_len(), 36);
    assert!(!blocks(4).push(SackBlock::default()));
}

#[test]
fn what_is_unknown_or_of_a_wrong_length_is_passed_over() {
    let bytes = [99, 3, 7, 2, 3, 9, 3, 2, 4, 3, 0, 8, 3, 1, 5, 4, 0, 0, 2, 4, 0, 0, 254, 4, 1, 2, 34, 5, 1, 2, 3];
    assert_eq!(Options::parse(&bytes), Options::NONE);
    let good_behind_bad = [99, 3, 7, 3, 3, 15, 2, 4, 1, 0];
    let expected = Options { mss: Some(256), window_scale: Some(14), ..Options::NONE };
    assert_eq!(Options::parse(&good_behind_bad), expected);
}

#[test]
fn what_follows_an_impossible_length_or_the_end_is_passed_over() {
    for tail in [&[8, 0, 3, 3, 1][..], &[8, 1], &[8], &[8, 10, 0], &[3, 4, 1]] {
        let options = Options::parse(&[&[2, 4, 1, 0], tail].concat());
        assert_eq!(options, Options { mss: Some(256), malformed: true, ..Options::NONE }, "{tail:?}");
    }
    let ended = Options::parse(&[2, 4, 1, 0, 0, 3, 3, 1]);
    assert_eq!(ended, Options { mss: Some(256), ..Options::NONE });
}

#[test]
fn signatures_are_recognised() {
    let md5 = [&[1, 1, 19, 18][..], &[7; 16]].concat();
    assert_eq!(Options::parse(&md5).authentication, Some(Authentication::Md5));
    assert_eq!(Options::parse(&[29, 6, 1, 2, 0, 0, 1, 1]).authentication, Some(Authentication::Ao));
    assert_eq!(Options::parse(&[29, 3, 1, 19, 4, 0, 0]).authentication, None);
}

fn any_sack() -> impl Strategy<Value = SackBlocks> {
    prop::collection::vec(any::<(u32, u32)>(), 0..=4).prop_map(|pairs| {
        let mut sack = SackBlocks::EMPTY;
        pairs.iter().for_each(|(l, r)| assert!(sack.push(SackBlock { left: SeqNumber(*l), right: SeqNumber(*r) })));
        sack
    })
}

fn any_fast_open() -> impl Strategy<Value = FastOpen> {
    (any::<[u8; 16]>(), 1usize..=8, any::<bool>()).prop_map(|(cookie, half, experimental)| {
        FastOpen::with_cookie(&cookie[..2 * half], experimental).unwrap_or(FastOpen::request(experimental))
    })
}

/// Whatever can be written, also what is longer than 40 bytes.
pub(crate) fn any_options() -> impl Strategy<Value = Options> {
    let fixed = (prop::option::of(1u16..), prop::option::of(0u8..=14), any::<bool>());
    let timestamps = prop::option::of(any::<(u32, u32)>());
    (fixed, timestamps, any_sack(), prop::option::of(any_fast_open())).prop_map(
        |((mss, window_scale, sack_permitted), timestamps, sack, fast_open)| Options {
            mss,
            window_scale,
            sack_permitted,
            timestamps: timestamps.map(|(value, echo)| Timestamps { value, echo }),
            sack,
            fast_open,
            ..Options::NONE
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read(options in any_options()) {
        let bytes = written(&options);
        prop_assert_eq!(bytes.len() % 4, 0);
        prop_assert_eq!(Options::parse(&bytes), options);
    }

    #[test]
    fn the_short_way_and_the_long_way_agree(bytes in prop::collection::vec(any::<u8>(), 0..=40)) {
        prop_assert_eq!(Options::parse(&bytes), Options::parse_all(&bytes));
        let mut aligned = bytes;
        aligned.resize(12, 3);
        aligned[..4].copy_from_slice(&TIMESTAMPS_WORD.to_be_bytes());
        prop_assert!(Timestamps::only(&aligned).is_some());
        prop_assert_eq!(Options::parse(&aligned), Options::parse_all(&aligned));
    }
}
