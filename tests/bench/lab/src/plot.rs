// SPDX-License-Identifier: MIT OR Apache-2.0
//! The results as pictures, SVG and PNG: the latency distribution, and latency by message size.
//!
//! The letters of the PNG come from a font in this program; an SVG names it, with the usual
//! substitutes.

use std::path::{Path, PathBuf};
use std::sync::Once;

use anyhow::{Context, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use plotters::style::{FontStyle, register_font};

use crate::measure::{Results, Series};
use crate::report::Metric;

/// The units of the SVG. The PNG has [`PNG_SCALE`] times as many pixels in each direction.
const SIZE: (u32, u32) = (1200, 720);
const PNG_SCALE: i32 = 2;
/// The rectangle of the curves. Their names stand to its right.
const LEFT: i32 = 76;
const RIGHT: i32 = 950;
const TOP: i32 = 112;
const BOTTOM: i32 = 650;
/// The least distance from one name to the next.
const NAME_DISTANCE: i32 = 24;
/// Family name of the letters.
const FONT: &str = "Noto Sans";
const INK: RGBColor = RGBColor(0x22, 0x2b, 0x36);
const FAINT_INK: RGBColor = RGBColor(0x6b, 0x75, 0x82);
const GRID: RGBColor = RGBColor(0xe0, 0xe5, 0xea);
const FAINT_GRID: RGBColor = RGBColor(0xf1, 0xf3, 0xf6);

/// Colours that colour-blind readers can distinguish (Okabe and Ito), the provider's the strongest.
fn colour(peer: &str, mode: &str) -> RGBColor {
    match (peer, mode) {
        ("xdp", "udp") => RGBColor(0xe6, 0x9f, 0x00),
        ("xdp", _) => RGBColor(0xd5, 0x5e, 0x00),
        ("raw-af_xdp", _) => RGBColor(0x33, 0x33, 0x33),
        ("kernel-udp", "blocking") => RGBColor(0x8c, 0xc4, 0xe8),
        ("kernel-udp", _) => RGBColor(0x3a, 0x9b, 0xd9),
        ("tcp", _) => RGBColor(0x00, 0x9e, 0x73),
        ("tcp;ofi_rxm", _) => RGBColor(0xcc, 0x79, 0xa7),
        _ => RGBColor(0x00, 0x55, 0x99),
    }
}

/// One curve of a picture.
struct Curve {
    label: String,
    colour: RGBColor,
    width: u32,
    /// Points in the picture's coordinates: values before logarithms.
    points: Vec<(f64, f64)>,
}

impl Curve {
    fn new(series: &Series, points: Vec<(f64, f64)>) -> Self {
        let candidate = &series.candidate;
        Self {
            label: candidate.label(),
            colour: colour(candidate.peer, &candidate.mode),
            width: if candidate.peer == "xdp" { 4 } else { 2 },
            points,
        }
    }
}

/// A picture: curves between two axes.
struct Picture<'a> {
    title: String,
    subtitle: String,
    x_title: &'a str,
    y_title: &'a str,
    /// Marks of the x axis, with their texts, in order and evenly spaced.
    x_marks: Vec<(f64, String)>,
    /// From a value to its position on the x axis.
    x_axis: fn(f64) -> f64,
    /// Whether each point gets a dot.
    dots: bool,
    curves: Vec<Curve>,
}

/// Draws the distribution of half round trips of `size_bytes` into `path`.svg and `path`.png.
///
/// # Errors
/// When a file cannot be written.
pub fn distribution(
    results: &Results,
    size_bytes: usize,
    path: &Path,
) -> anyhow::Result<Vec<PathBuf>> {
    let curves = results.series.iter().map(|series| {
        let microseconds = series.distribution(size_bytes).into_iter().map(|(q, ns)| (q, ns / 1e3));
        Curve::new(series, microseconds.collect())
    });
    let marks = [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999];
    let picture = Picture {
        title: String::from("Latency distribution"),
        subtitle: format!("half round trip of {size_bytes} bytes, {}", results.setting),
        x_title: "percentile",
        y_title: "µs",
        x_marks: marks.map(|q| (q, percent(q))).to_vec(),
        // Tenths of the remainder are equally wide: 90 %, 99 %, 99.9 % …
        x_axis: |q| -(1.0 - q).max(1e-5).log10(),
        dots: false,
        curves: curves.filter(|curve| !curve.points.is_empty()).collect(),
    };
    picture.write(path)
}

/// Draws the median half round trip by message size into `path`.svg and `path`.png.
///
/// # Errors
/// When a file cannot be written.
pub fn by_size(results: &Results, path: &Path) -> anyhow::Result<Vec<PathBuf>> {
    let curves = results.series.iter().map(|series| {
        let point = |size: &usize| {
            let ns = series.median(Metric::HalfRttP50, *size)?;
            Some((*size as f64, ns / 1e3))
        };
        Curve::new(series, series.latency_sizes().iter().filter_map(point).collect())
    });
    let mut sizes: Vec<usize> = results.series.iter().flat_map(Series::latency_sizes).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let picture = Picture {
        title: String::from("Latency by message size"),
        subtitle: format!("median half round trip, {}", results.setting),
        x_title: "message size",
        y_title: "µs",
        x_marks: sizes.iter().map(|size| (*size as f64, bytes(*size))).collect(),
        x_axis: |size| size.max(1.0).log2(),
        dots: true,
        curves: curves.filter(|curve| !curve.points.is_empty()).collect(),
    };
    picture.write(path)
}

fn percent(quantile: f64) -> String {
    // `{}` would show 99.99000000000001.
    let text = format!("{:.2}", quantile * 100.0);
    format!("{} %", text.trim_end_matches('0').trim_end_matches('.'))
}

fn bytes(size: usize) -> String {
    match size {
        0..1024 => format!("{size} B"),
        1024..1_048_576 => format!("{} KiB", size / 1024),
        _ => format!("{} MiB", size / 1_048_576),
    }
}

impl Picture<'_> {
    /// Writes both files.
    fn write(&self, path: &Path) -> anyhow::Result<Vec<PathBuf>> {
        register_fonts();
        if let Some(folder) = path.parent() {
            std::fs::create_dir_all(folder)?;
        }
        let (svg, png) = (path.with_extension("svg"), path.with_extension("png"));
        let area = SVGBackend::new(&svg, SIZE).into_drawing_area();
        self.draw(&Canvas { area, scale: 1 })
            .with_context(|| format!("cannot draw {}", svg.display()))?;
        let pixels = (SIZE.0 * PNG_SCALE.unsigned_abs(), SIZE.1 * PNG_SCALE.unsigned_abs());
        let area = BitMapBackend::new(&png, pixels).into_drawing_area();
        self.draw(&Canvas { area, scale: PNG_SCALE })
            .with_context(|| format!("cannot draw {}", png.display()))?;
        Ok(vec![svg, png])
    }

    fn draw<B: DrawingBackend>(&self, canvas: &Canvas<B>) -> Drawn {
        canvas.area.fill(&WHITE).map_err(failed)?;
        canvas.text(&self.title, (36, 40), 28, INK, HPos::Left)?;
        canvas.text(&self.subtitle, (36, 72), 17, FAINT_INK, HPos::Left)?;
        if !self.curves.is_empty() {
            let scale = self.scale();
            self.draw_axes(canvas, &scale)?;
            // The provider last, on top.
            for curve in self.curves.iter().rev() {
                self.draw_curve(canvas, &scale, curve)?;
            }
            self.draw_names(canvas, &scale)?;
        }
        canvas.area.present().map_err(failed)
    }

    /// From values to pixels.
    fn scale(&self) -> Scale {
        let values = || self.curves.iter().flat_map(|curve| curve.points.iter().map(|p| p.1));
        let low = values().fold(f64::INFINITY, f64::min).max(0.01);
        let high = values().fold(low, f64::max);
        let marks: Vec<f64> = self.x_marks.iter().map(|(x, _)| (self.x_axis)(*x)).collect();
        let first = marks.first().copied().unwrap_or(0.0);
        let last = marks.last().copied().unwrap_or(1.0).max(first + 0.1);
        Scale { x: (first, last), y: ((low * 0.8).log10(), (high * 1.2).log10()) }
    }

    fn draw_axes<B: DrawingBackend>(&self, canvas: &Canvas<B>, scale: &Scale) -> Drawn {
        for (value, label) in &self.x_marks {
            let x = scale.x((self.x_axis)(*value));
            canvas.line(&[(x, TOP), (x, BOTTOM)], GRID, 1)?;
            canvas.text(label, (x, BOTTOM + 20), 16, INK, HPos::Center)?;
        }
        for (value, labelled) in decimal_marks(10_f64.powf(scale.y.0), 10_f64.powf(scale.y.1)) {
            let y = scale.y(value.log10());
            canvas.line(&[(LEFT, y), (RIGHT, y)], if labelled { GRID } else { FAINT_GRID }, 1)?;
            if labelled {
                canvas.text(&value.to_string(), (LEFT - 10, y), 16, INK, HPos::Right)?;
            }
        }
        canvas.line(&[(LEFT, BOTTOM), (RIGHT, BOTTOM)], FAINT_INK, 1)?;
        let middle = i32::midpoint(LEFT, RIGHT);
        canvas.text(self.x_title, (middle, BOTTOM + 48), 17, FAINT_INK, HPos::Center)?;
        canvas.text(self.y_title, (LEFT - 10, TOP - 12), 17, FAINT_INK, HPos::Right)
    }

    fn draw_curve<B: DrawingBackend>(
        &self,
        canvas: &Canvas<B>,
        scale: &Scale,
        curve: &Curve,
    ) -> Drawn {
        let points: Vec<(i32, i32)> = curve
            .points
            .iter()
            .map(|(x, y)| (scale.x((self.x_axis)(*x)), scale.y(y.log10())))
            .collect();
        canvas.line(&points, curve.colour, curve.width)?;
        if self.dots {
            for point in points {
                canvas.dot(point, curve.colour, curve.width + 1)?;
            }
        }
        Ok(())
    }

    /// The name of each curve beside its end, moved apart where two would touch.
    fn draw_names<B: DrawingBackend>(&self, canvas: &Canvas<B>, scale: &Scale) -> Drawn {
        let mut ends: Vec<((i32, i32), &Curve)> = Vec::new();
        for curve in &self.curves {
            if let Some((x, y)) = curve.points.last() {
                ends.push(((scale.x((self.x_axis)(*x)), scale.y(y.log10())), curve));
            }
        }
        ends.sort_by_key(|((_, y), _)| *y);
        let heights: Vec<i32> = ends.iter().map(|((_, y), _)| *y).collect();
        for ((end, curve), height) in ends.into_iter().zip(apart(&heights)) {
            // A thin line leads from a curve's end to its name.
            let knee = (RIGHT + 6, end.1);
            canvas.line(&[end, knee, (RIGHT + 26, height)], lighter(curve.colour), 1)?;
            let ink = darker(curve.colour);
            canvas.text(&curve.label, (RIGHT + 32, height), 17, ink, HPos::Left)?;
        }
        Ok(())
    }
}

/// From values on the axes to pixels.
struct Scale {
    x: (f64, f64),
    y: (f64, f64),
}

impl Scale {
    fn x(&self, value: f64) -> i32 {
        let part = ((value - self.x.0) / (self.x.1 - self.x.0)).clamp(0.0, 1.0);
        LEFT + (part * f64::from(RIGHT - LEFT)).round() as i32
    }

    fn y(&self, value: f64) -> i32 {
        let part = ((value - self.y.0) / (self.y.1 - self.y.0)).clamp(0.0, 1.0);
        BOTTOM - (part * f64::from(BOTTOM - TOP)).round() as i32
    }
}

/// Ascending `heights`, moved by the least that keeps [`NAME_DISTANCE`] and the picture's bounds.
fn apart(heights: &[i32]) -> Vec<i32> {
    let mut moved: Vec<i32> = Vec::with_capacity(heights.len());
    for height in heights {
        let least = moved.last().map_or(TOP, |before| before + NAME_DISTANCE);
        moved.push((*height).max(least));
    }
    let mut most = BOTTOM + 16;
    for height in moved.iter_mut().rev() {
        *height = (*height).min(most);
        most = *height - NAME_DISTANCE;
    }
    moved
}

/// The marks 1, 2, 5, 10 … between two values, and fainter ones without a number at the other
/// digits.
fn decimal_marks(low: f64, high: f64) -> Vec<(f64, bool)> {
    let mut marks = Vec::new();
    for decade in low.log10().floor() as i32..=high.log10().ceil() as i32 {
        for digit in 1..=9 {
            let value = f64::from(digit) * 10_f64.powi(decade);
            // 0.30000000000000004 is not a label.
            let value = (value * 1e6).round() / 1e6;
            if (low..=high).contains(&value) {
                marks.push((value, [1, 2, 5].contains(&digit)));
            }
        }
    }
    marks
}

type Drawn = anyhow::Result<()>;

/// A drawing area with the few strokes of a picture. Coordinates are those of the SVG.
struct Canvas<B: DrawingBackend> {
    area: DrawingArea<B, Shift>,
    /// Pixels for a unit.
    scale: i32,
}

impl<B: DrawingBackend> Canvas<B> {
    fn line(&self, points: &[(i32, i32)], colour: RGBColor, width: u32) -> Drawn {
        let points: Vec<_> = points.iter().map(|point| self.pixel(*point)).collect();
        let style = colour.stroke_width(self.length(width));
        self.area.draw(&PathElement::new(points, style)).map_err(failed)
    }

    fn dot(&self, point: (i32, i32), colour: RGBColor, radius: u32) -> Drawn {
        let dot = Circle::new(self.pixel(point), self.length(radius), colour.filled());
        self.area.draw(&dot).map_err(failed)
    }

    fn text(&self, text: &str, at: (i32, i32), size: u32, ink: RGBColor, side: HPos) -> Drawn {
        let anchor = Pos::new(side, VPos::Center);
        let style = (FONT, self.length(size)).into_font().color(&ink).pos(anchor);
        self.area.draw(&Text::new(text.to_owned(), self.pixel(at), style)).map_err(failed)
    }

    fn pixel(&self, (x, y): (i32, i32)) -> (i32, i32) {
        (x * self.scale, y * self.scale)
    }

    fn length(&self, units: u32) -> u32 {
        units * self.scale.unsigned_abs()
    }
}

/// `colour` with half white, for thin lines.
fn lighter(colour: RGBColor) -> RGBColor {
    let mix = |part: u8| part / 2 + 127;
    RGBColor(mix(colour.0), mix(colour.1), mix(colour.2))
}

/// `colour` with a quarter black, for letters.
fn darker(colour: RGBColor) -> RGBColor {
    let mix = |part: u8| part / 4 * 3;
    RGBColor(mix(colour.0), mix(colour.1), mix(colour.2))
}

/// Registers the built-in font, once.
fn register_fonts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // Fails only for a font that cannot be parsed; the test below would show that.
        let _ = register_font(FONT, FontStyle::Normal, notosans::REGULAR_TTF);
    });
}

/// A drawing error of any backend.
fn failed<E: std::fmt::Display>(error: E) -> anyhow::Error {
    anyhow!("{error}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_keep_their_distance_and_stay_inside() {
        let crowded = vec![BOTTOM; 8];
        let moved = apart(&crowded);
        assert!(moved.windows(2).all(|pair| pair[1] - pair[0] >= NAME_DISTANCE), "{moved:?}");
        assert!(moved.iter().all(|height| (TOP - 60..=BOTTOM + 16).contains(height)), "{moved:?}");
        assert_eq!(apart(&[200, 300]), vec![200, 300]);
    }

    #[test]
    fn marks_are_numbers_that_can_be_read() {
        let marks = decimal_marks(0.9, 21.0);
        let labelled: Vec<String> =
            marks.iter().filter(|(_, l)| *l).map(|(value, _)| value.to_string()).collect();
        assert_eq!(labelled, ["1", "2", "5", "10", "20"]);
    }

    #[test]
    fn axis_labels() {
        assert_eq!(percent(0.9999), "99.99 %");
        assert_eq!(percent(0.0), "0 %");
        assert_eq!(bytes(16_384), "16 KiB");
    }
}
