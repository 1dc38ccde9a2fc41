//! Identifiers of traces and spans.

/// The span of an attempt, which follows from that of its call: a lane is told of it before anything is recorded.
pub(super) fn attempt_id(call: [u8; 8], number: usize) -> [u8; 8] {
    mixed(u64::from_be_bytes(call).wrapping_add(number as u64 + 1)).max(1).to_be_bytes()
}

/// A number's bits mixed by the finaliser of SplitMix64, which maps no two numbers to one.
pub(super) fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
