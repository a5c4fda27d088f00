// SPDX-License-Identifier: MIT OR Apache-2.0
//! Flame graphs of sampled stacks (B. Gregg, "The Flame Graph", CACM 59(6), 2016): the width of a
//! frame is its share of the samples, and it stands on its caller.
//!
//! In: the output of `perf script`. Out: an SVG picture of plain rectangles, each with its name and
//! share as a tooltip. Bounds: [`DEPTH_MAX`] outermost frames of a stack; frames narrower than
//! [`WIDTH_MIN`] are not drawn.

use std::collections::BTreeMap;
use std::fmt::Write as _;

/// Most frames of one stack.
const DEPTH_MAX: usize = 48;
/// The picture's width, and the height of a frame, in pixels.
const WIDTH: f64 = 1200.0;
const HEIGHT: f64 = 16.0;
/// The narrowest drawn frame, and the width of a letter.
const WIDTH_MIN: f64 = 0.5;
const LETTER: f64 = 7.0;
/// Height of the title above the highest frame.
const MARGIN: f64 = 24.0;

/// The stacks in the output of `perf script`, the outermost frame first: (function, object). A line
/// without indentation begins a sample. The other lines are its frames, the innermost first:
/// address, function with offset, and the object in brackets.
pub(super) fn stacks(script: &str) -> Vec<Vec<(&str, &str)>> {
    let mut stacks: Vec<Vec<(&str, &str)>> = Vec::new();
    for line in script.lines().filter(|line| !line.trim().is_empty()) {
        if !line.starts_with(char::is_whitespace) {
            stacks.push(Vec::new());
        } else if let (Some(stack), Some(frame)) = (stacks.last_mut(), frame(line)) {
            stack.push(frame);
        }
    }
    stacks.retain(|stack| !stack.is_empty());
    for stack in &mut stacks {
        stack.reverse();
        stack.truncate(DEPTH_MAX);
    }
    stacks
}

fn frame(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.trim().split_once(' ')?;
    let (symbol, object) = rest.rsplit_once(" (")?;
    let function = symbol.rsplit_once("+0x").map_or(symbol, |(function, _)| function);
    let object = object.trim_end_matches(')');
    Some((function, object.rsplit('/').next().unwrap_or(object)))
}

/// A function, as called by its parent frame.
#[derive(Debug, Default)]
pub(super) struct Frame<'a> {
    samples: u32,
    /// Its callees, by name.
    callees: BTreeMap<&'a str, Self>,
}

impl<'a> Frame<'a> {
    /// All stacks, merged.
    pub(super) fn tree(stacks: &[Vec<(&'a str, &'a str)>]) -> Self {
        let mut root = Self::default();
        for stack in stacks {
            root.samples += 1;
            let mut frame = &mut root;
            for (function, _) in stack {
                frame = frame.callees.entry(function).or_default();
                frame.samples += 1;
            }
        }
        root
    }

    fn depth(&self) -> usize {
        1 + self.callees.values().map(Self::depth).max().unwrap_or(0)
    }

    /// The picture.
    pub(super) fn svg(&self, title: &str) -> String {
        let height = MARGIN + HEIGHT * self.depth() as f64;
        let mut svg = format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             font-family=\"monospace\" font-size=\"11\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n\
             <text x=\"4\" y=\"15\" font-size=\"13\">{}</text>\n",
            escaped(title)
        );
        self.draw("all", (0.0, height - HEIGHT), self.samples.max(1), &mut svg);
        svg.push_str("</svg>\n");
        svg
    }

    fn draw(&self, name: &str, (left, top): (f64, f64), all: u32, svg: &mut String) {
        let share = f64::from(self.samples) / f64::from(all);
        let width = share * WIDTH;
        if width < WIDTH_MIN {
            return;
        }
        // A colour for each name, between yellow and red.
        let hash = name.bytes().fold(7_u32, |hash, byte| hash.wrapping_mul(31) ^ u32::from(byte));
        let letters = ((width - 4.0) / LETTER).max(0.0) as usize;
        let text: String = name.chars().take(letters).collect();
        // Writing to a string does not fail.
        let _ = writeln!(
            svg,
            "<g><title>{name} {percent:.1} %</title><rect x=\"{left:.1}\" y=\"{top:.0}\" \
             width=\"{width:.1}\" height=\"{box_height}\" fill=\"hsl({hue},80%,{light}%)\"/>\
             <text x=\"{x:.1}\" y=\"{y:.0}\">{text}</text></g>",
            name = escaped(name),
            percent = 100.0 * share,
            box_height = HEIGHT - 1.0,
            hue = hash % 50,
            light = 65 + hash / 50 % 15,
            x = left + 2.0,
            y = top + 11.0,
            text = escaped(&text),
        );
        let mut left = left;
        for (name, callee) in &self.callees {
            callee.draw(name, (left, top - HEIGHT), all, svg);
            left += f64::from(callee.samples) / f64::from(all) * WIDTH;
        }
    }
}

/// `text`, escaped for XML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::*;

    const SCRIPT: &str = "perf 1 [001] 2.0:  1 cycles:\n\t 7f00 a::<b>::crc+0x1 (/x/libxdp-fi.so)\n\
                          \t 7f01 main+0x2 (/y/perf)\n\nperf 1 [001] 2.1:  1 cycles:\n\
                          \t ffff memcpy+0xa ([kernel.kallsyms])\n\t 7f01 main+0x9 (/y/perf)\n\n";

    #[test]
    fn stacks_are_read_outermost_first() {
        let expected = [
            vec![("main", "perf"), ("a::<b>::crc", "libxdp-fi.so")],
            vec![("main", "perf"), ("memcpy", "[kernel.kallsyms]")],
        ];
        assert_eq!(stacks(SCRIPT), expected);
    }

    #[test]
    fn a_frame_is_as_wide_as_its_share() {
        let svg = Frame::tree(&stacks(SCRIPT)).svg("a & b");
        assert!(svg.contains(">a &amp; b</text>"), "{svg}");
        assert!(svg.contains("<title>main 100.0 %</title>"), "{svg}");
        assert!(svg.contains("<title>a::&lt;b&gt;::crc 50.0 %</title>"), "{svg}");
        let memcpy = svg.lines().find(|line| line.contains("memcpy")).unwrap();
        assert!(memcpy.contains("x=\"600.0\"") && memcpy.contains("width=\"600.0\""), "{memcpy}");
    }
}
