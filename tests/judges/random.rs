//! Pseudo-random choices that a seed repeats.

/// SplitMix64.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A generator for one test: seeded by the environment's `JUDGES_SEED`, else by the clock. The seed is
    /// printed, so that a failure can be played again.
    pub fn for_test(test: &str) -> Self {
        let seed = match std::env::var("JUDGES_SEED") {
            Ok(seed) => seed.parse().expect("JUDGES_SEED is a number"),
            Err(_) => std::time::UNIX_EPOCH.elapsed().expect("a clock past 1970").as_nanos() as u64,
        };
        eprintln!("{test}: repeat with JUDGES_SEED={seed}");
        Self::new(seed)
    }

    /// A number out of all.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    /// True once in `times`.
    pub fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    pub fn coin(&mut self) -> bool {
        self.once_in(2)
    }

    pub fn choose<'a, T>(&mut self, choices: &'a [T]) -> &'a T {
        &choices[self.below(choices.len())]
    }
}
