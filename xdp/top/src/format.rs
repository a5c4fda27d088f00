// SPDX-License-Identifier: MIT OR Apache-2.0
//! Numbers and texts in a given width.
//!
//! In: figures and printable ASCII of filtered pages. Out: text of a bounded width. Callers: the
//! plain and the interactive output. Bound: the width.

/// Mark of a text that was cut, in plain output.
const CUT: char = '~';

/// A short form of at most six characters: `12345678` as `12.3M`.
pub(crate) fn short(value: f64) -> String {
    const UNITS: [(f64, char); 6] =
        [(1e18, 'E'), (1e15, 'P'), (1e12, 'T'), (1e9, 'G'), (1e6, 'M'), (1e3, 'k')];
    if value >= 1e21 {
        return String::from(">999E");
    }
    match UNITS.into_iter().find(|(unit, _)| value >= *unit) {
        Some((unit, letter)) if letter == 'k' || value >= 100.0 * unit => {
            format!("{:.1}{letter}", value / unit)
        }
        Some((unit, letter)) => format!("{:.2}{letter}", value / unit),
        None => format!("{value:.0}"),
    }
}

/// A time of at most eight characters: `2500` ns as `2.5 µs`.
pub(crate) fn time(nanos: u64) -> String {
    const UNITS: [(f64, &str); 3] = [(1e9, "s"), (1e6, "ms"), (1e3, "µs")];
    let value = nanos as f64;
    match UNITS.into_iter().find(|(unit, _)| value >= *unit) {
        _ if nanos == 0 => String::from("-"),
        Some((unit, _)) if value >= 1000.0 * unit => String::from(">999 s"),
        Some((unit, name)) => format!("{:.1} {name}", value / unit),
        None => format!("{nanos} ns"),
    }
}

/// A number of packets with a digit behind the point, where it is small enough to matter.
pub(crate) fn packets(count: f64) -> String {
    if count < 1000.0 { format!("{count:.1}") } else { short(count) }
}

/// The first `width` characters of `text`; the last of them shows that there was more.
pub(crate) fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain([CUT]).take(width).collect()
}

/// The last `width` characters of `text`: the port is the end of an address.
pub(crate) fn cut_front(text: &str, width: usize) -> String {
    let count = text.chars().count();
    if count <= width {
        return text.to_owned();
    }
    let kept = text.chars().skip(count - width.saturating_sub(1));
    [CUT].into_iter().chain(kept).take(width).collect()
}

/// `words` in lines of at most `width` characters, broken at spaces where there are some.
pub(crate) fn wrapped(words: &str, width: usize) -> Vec<String> {
    let width = width.max(1);
    let mut lines: Vec<String> = Vec::new();
    for word in words.split(' ').filter(|word| !word.is_empty()) {
        let mut word: Vec<char> = word.chars().collect();
        let length = |line: &String| line.chars().count();
        match lines.last_mut() {
            Some(line) if length(line) + 1 + word.len() <= width => {
                line.push(' ');
                line.extend(word);
                continue;
            }
            _ => {}
        }
        while word.len() > width {
            let rest = word.split_off(width);
            lines.push(word.into_iter().collect());
            word = rest;
        }
        lines.push(word.into_iter().collect());
    }
    lines
}

/// `items` side by side in lines of at most `width` characters, with two spaces between them. No
/// item is broken; one that is longer than a line is cut.
pub(crate) fn flowed(items: &[String], width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for item in items {
        let item = cut(item, width);
        let length = |line: &String| line.chars().count();
        match lines.last_mut() {
            Some(line) if length(line) + 2 + item.chars().count() <= width => {
                line.push_str("  ");
                line.push_str(&item);
            }
            _ => lines.push(item),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_short() {
        let values = [1.0, 1500.0, 2.5e6, 3e9, 123.4e6, 999_949.0];
        assert_eq!(values.map(short), ["1", "1.5k", "2.50M", "3.00G", "123.4M", "999.9k"]);
        for value in [u64::MAX as f64, 1e300, f64::INFINITY, f64::NAN, 999.9, 999_999_999.0] {
            assert!(short(value).len() <= 7, "{}", short(value));
        }
    }

    #[test]
    fn times_have_their_unit() {
        let times = [0, 700, 2_500, 3_000_000, 4_000_000_000, u64::MAX].map(time);
        assert_eq!(times, ["-", "700 ns", "2.5 µs", "3.0 ms", "4.0 s", ">999 s"]);
    }

    #[test]
    fn a_cut_text_shows_it() {
        assert_eq!((cut("abc", 3), cut("abcd", 3)), ("abc".to_owned(), "ab~".to_owned()));
        assert_eq!((cut_front("abcd", 3), cut("abc", 0)), ("~cd".to_owned(), String::new()));
        assert_eq!((cut_front("abcd", 0), cut_front("abcd", 1)), (String::new(), "~".to_owned()));
    }

    #[test]
    fn lines_are_not_longer_than_their_width() {
        assert_eq!(wrapped("one two  three", 7), ["one two", "three"]);
        assert_eq!(wrapped("abcdefgh i", 3), ["abc", "def", "gh", "i"]);
        assert_eq!(wrapped("ab", 0), ["a", "b"]);
        let items = ["one", "two", "threethree"].map(str::to_owned);
        assert_eq!(flowed(&items, 8), ["one  two", "threeth~"]);
        assert!(wrapped("", 5).is_empty() && flowed(&[], 5).is_empty());
    }
}
