//! Numbers that are the same for the same seed everywhere, and the numbers of cases.

use std::str::FromStr;

/// Returns the number in a variable of the environment, such as a number of cases or a seed, or the default without it.
pub fn number<N: FromStr>(variable: &str, default: N) -> N {
    std::env::var(variable)
        .map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is no number: {text:?}")))
}

/// A small generator (xorshift64*).
pub struct Random(u64);

impl Random {
    /// Seeds lie close together, so they are spread first.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % limit
    }

    /// True once in so many times.
    pub fn one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn pick<'a>(&mut self, list: &[&'a str]) -> &'a str {
        list[self.below(list.len())]
    }
}
