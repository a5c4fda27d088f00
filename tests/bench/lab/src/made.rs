// SPDX-License-Identifier: MIT OR Apache-2.0
//! The build that is measured, and the time before the measurement, from `cargo xtask`.
//!
//! In: the variables [`BUILD`] and [`SPENT`]. Out: words for the table, the page and the last
//! line. Callers: the tasks `run` and `bench`. Bound: two variables.

use std::time::{Duration, Instant};

/// The variable with the name of the build, such as `quick build`.
const BUILD: &str = "OFI_XDP_BUILD";
/// The variable with the steps before the lab, such as `set-up 1 s, build 90 s`.
const SPENT: &str = "OFI_XDP_SPENT";

/// The build and the beginning of the lab.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Made {
    build: Option<String>,
    spent: Option<String>,
    begin: Instant,
}

impl Made {
    /// The values of the environment. The lab begins now.
    #[must_use]
    pub fn from_environment() -> Self {
        let text = |name| std::env::var(name).ok().filter(|text: &String| !text.is_empty());
        Self { build: text(BUILD), spent: text(SPENT), begin: Instant::now() }
    }

    /// The name of the build; `build not known` if the lab was started by hand.
    #[must_use]
    pub fn build(&self) -> &str {
        self.build.as_deref().unwrap_or("build not known")
    }

    /// The steps with their times, up to now.
    #[must_use]
    pub fn times(&self) -> String {
        self.times_at(self.begin.elapsed())
    }

    fn times_at(&self, lab: Duration) -> String {
        let before = self.spent.iter().map(|spent| format!("{spent}, "));
        format!("{}measurement {:.0} s", before.collect::<String>(), lab.as_secs_f64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_times_are_those_of_the_task_and_of_the_lab() {
        let made = |spent: Option<&str>| Made {
            build: Some("quick build".to_owned()),
            spent: spent.map(str::to_owned),
            begin: Instant::now(),
        };
        let lab = Duration::from_millis(67_600);
        let known = made(Some("set-up 1 s, build 90 s"));
        assert_eq!(known.build(), "quick build");
        assert_eq!(known.times_at(lab), "set-up 1 s, build 90 s, measurement 68 s");
        assert_eq!(made(None).times_at(lab), "measurement 68 s");
        let by_hand = Made { build: None, ..made(None) };
        assert_eq!(by_hand.build(), "build not known");
    }
}
