// SPDX-License-Identifier: MIT OR Apache-2.0
//! Message sizes on a command line: `8`, `64K`, `8..1M`.
//!
//! In: text. Out: numbers of bytes, or the fault of the text. Bound: one size for each power
//! of two.

/// The longest message.
pub const SIZE_MAX: usize = 256 << 20;

/// The sizes that one word names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sizes(pub Vec<usize>);

/// Parses a size, or `FROM..TO`: `FROM`, then the powers of two beyond it up to `TO`.
///
/// # Errors
/// A sentence about the form of a size.
pub fn parse_sizes(text: &str) -> Result<Sizes, String> {
    let Some((from, to)) = text.split_once("..") else {
        return Ok(Sizes(vec![parse_size(text)?]));
    };
    let (from, to) = (parse_size(from)?, parse_size(to)?);
    if from > to {
        return Err(format!("{text:?} begins beyond its end"));
    }
    let next = |size: &usize| Some((size + 1).next_power_of_two());
    Ok(Sizes(std::iter::successors(Some(from), next).take_while(|size| *size <= to).collect()))
}

/// Parses one size, with `K` or `M` for 1024 or 1024² bytes.
///
/// # Errors
/// A sentence about the form of a size.
pub fn parse_size(text: &str) -> Result<usize, String> {
    let (number, unit) = match text.as_bytes().last() {
        Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
        Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
        _ => (text, 1),
    };
    let size = number.parse::<usize>().ok().and_then(|number| number.checked_mul(unit));
    match size {
        Some(size) if size <= SIZE_MAX => Ok(size),
        Some(_) => Err(format!("{text:?} is more than {} MiB", SIZE_MAX >> 20)),
        None => Err(format!("{text:?} is no size, such as 8, 64K or 1M")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units_and_ranges() {
        assert_eq!(parse_sizes("8"), Ok(Sizes(vec![8])));
        assert_eq!(parse_sizes("64K"), Ok(Sizes(vec![65_536])));
        assert_eq!(parse_sizes("1..8"), Ok(Sizes(vec![1, 2, 4, 8])));
        assert_eq!(parse_sizes("6..16"), Ok(Sizes(vec![6, 8, 16])));
        assert_eq!(parse_sizes("0..4"), Ok(Sizes(vec![0, 1, 2, 4])));
        for bad in ["", "K", "8..", "9..8", "-1", "1G", "257M", "99999999999999999999"] {
            assert!(parse_sizes(bad).is_err(), "{bad:?}");
        }
    }
}
