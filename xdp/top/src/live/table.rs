// SPDX-License-Identifier: MIT OR Apache-2.0
//! A table that is sorted, filtered and scrolled, with the columns that fit.
//!
//! In: items and their columns. Out: lines of the screen. Callers: the list and the page of an
//! endpoint. The selection follows its item, not its place. Bound: the items; the text of the rows
//! on the screen alone is made.

use std::cmp::Ordering;

use ratatui::Frame;
use ratatui::layout::{Alignment, Constraint, Rect};
use ratatui::text::Line;
use ratatui::widgets::{Cell, Row, Table};

use super::theme::Theme;
use crate::format::{cut, cut_front};

/// Maximum length of a filter.
const FILTER_MAX: usize = 64;

/// A row of a table.
pub(super) trait Item {
    /// The name that no other item has.
    fn key(&self) -> &str;
    /// The texts that a filter searches.
    fn words(&self) -> Vec<String>;
}

/// The content of a column.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// Texts, cut at the end.
    Text,
    /// Addresses, cut at the beginning.
    Address,
    /// Figures: to the right, and sorted from the greatest.
    Figure,
}

/// A column of a table.
#[derive(Debug)]
pub(super) struct Column<T> {
    pub(super) title: &'static str,
    /// The least width, and how many characters more it takes where there is room.
    pub(super) width: (u16, u16),
    /// Its place in the order in which columns get room.
    pub(super) rank: u8,
    pub(super) kind: Kind,
    pub(super) text: fn(&T) -> String,
    pub(super) compare: fn(&T, &T) -> Ordering,
}

/// The part of a table that the user sees.
#[derive(Clone, Debug)]
pub(super) struct TableView {
    /// The column that the rows are sorted by.
    pub(super) sort: usize,
    pub(super) reversed: bool,
    pub(super) filter: String,
    /// The key of the selected item, and its last place.
    selected: Option<String>,
    index: usize,
    /// The first row on the screen, and their number.
    offset: usize,
    pub(super) rows: usize,
}

impl TableView {
    /// The view of a new table, sorted by the column `sort`.
    pub(super) const fn new(sort: usize) -> Self {
        Self {
            sort,
            reversed: false,
            filter: String::new(),
            selected: None,
            index: 0,
            offset: 0,
            rows: 1,
        }
    }

    /// The items that pass the filter, sorted.
    pub(super) fn ordered<'a, T: Item>(&self, columns: &[Column<T>], items: &'a [T]) -> Vec<&'a T> {
        let wanted = self.filter.to_lowercase();
        let passes = |item: &&T| {
            wanted.is_empty()
                || item.words().iter().any(|word| word.to_lowercase().contains(&wanted))
        };
        let mut ordered: Vec<&T> = items.iter().filter(passes).collect();
        if let Some(column) = columns.get(self.sort) {
            let falls = (column.kind == Kind::Figure) != self.reversed;
            ordered.sort_by(|one, other| {
                let order = (column.compare)(one, other);
                let order = if falls { order.reverse() } else { order };
                order.then_with(|| one.key().cmp(other.key()))
            });
        }
        ordered
    }

    /// The place of the selected item. Where it is gone, the item at its place is selected.
    pub(super) fn select<T: Item>(&mut self, ordered: &[&T]) -> Option<usize> {
        let same = |key: &String| ordered.iter().position(|item| item.key() == key);
        let found = self.selected.as_ref().and_then(same);
        let index = found.unwrap_or_else(|| self.index.min(ordered.len().saturating_sub(1)));
        self.index = index;
        // Without a selection, the first place is selected, whatever stands there.
        if found.is_none() && self.selected.is_some() {
            self.selected = ordered.get(index).map(|item| item.key().to_owned());
        }
        (!ordered.is_empty()).then_some(index)
    }

    /// Moves the selection by `step` rows.
    pub(super) fn step<T: Item>(&mut self, ordered: &[&T], step: isize) {
        let Some(index) = self.select(ordered) else { return };
        let index = index.saturating_add_signed(step).min(ordered.len() - 1);
        self.index = index;
        self.selected = ordered.get(index).map(|item| item.key().to_owned());
    }

    /// The next column to sort by, to the right or to the left.
    pub(super) fn sort_next(&mut self, columns: usize, right: bool) {
        let step = if right { 1 } else { columns - 1 };
        self.sort = (self.sort + step) % columns;
        self.reversed = false;
    }

    /// Adds a character to the filter.
    pub(super) fn filter_more(&mut self, letter: char) {
        if matches!(letter, ' '..='~') && self.filter.len() < FILTER_MAX {
            self.filter.push(letter);
        }
    }

    /// Draws the table into `area`.
    pub(super) fn draw<T: Item>(
        &mut self,
        frame: &mut Frame<'_>,
        area: Rect,
        (columns, items): (&[Column<T>], &[T]),
        theme: Theme,
    ) {
        let ordered = self.ordered(columns, items);
        let selected = self.select(&ordered);
        self.rows = usize::from(area.height.saturating_sub(1)).max(1);
        self.offset = self.offset.min(ordered.len().saturating_sub(self.rows));
        if let Some(selected) = selected {
            let first = (selected + 1).saturating_sub(self.rows);
            self.offset = self.offset.clamp(first, selected);
        }
        let fitting = fitting(columns, self.sort, area.width);
        let mut head = Vec::new();
        for &(index, width) in &fitting {
            let column = &columns[index];
            let style = if index == self.sort { theme.sorted() } else { theme.header() };
            head.push(Cell::from(cell(column.kind, column.title, width)).style(style));
        }
        let shown = ordered.iter().enumerate().skip(self.offset).take(self.rows);
        let rows = shown.map(|(place, item)| {
            let cells = fitting.iter().map(|&(index, width)| {
                let column = &columns[index];
                cell(column.kind, &(column.text)(item), width)
            });
            let row = Row::new(cells);
            if Some(place) == selected { row.style(theme.selected()) } else { row }
        });
        let widths = fitting.iter().map(|&(_, width)| Constraint::Length(width));
        let head = Row::new(head).style(theme.header());
        frame.render_widget(Table::new(rows, widths).header(head).column_spacing(1), area);
    }

    /// Which rows are on the screen, of how many.
    pub(super) fn range(&self, count: usize) -> String {
        if count == 0 {
            return String::from("0 of 0");
        }
        let last = (self.offset + self.rows).min(count);
        format!("{}-{last} of {count}", self.offset + 1)
    }
}

fn cell(kind: Kind, text: &str, width: u16) -> Line<'static> {
    match kind {
        Kind::Text => Line::from(cut(text, width.into())),
        Kind::Address => Line::from(cut_front(text, width.into())),
        Kind::Figure => Line::from(cut(text, width.into())).alignment(Alignment::Right),
    }
}

/// The columns that `width` has room for, with their widths, from the left. The first column and
/// the one that the rows are sorted by are always among them.
fn fitting<T>(columns: &[Column<T>], sort: usize, width: u16) -> Vec<(usize, u16)> {
    let mut ranked: Vec<usize> = (0..columns.len()).collect();
    ranked.sort_by_key(|&index| (index != 0, index != sort, columns[index].rank));
    let mut left = width;
    let mut shown = Vec::new();
    for index in ranked {
        let gap = u16::from(!shown.is_empty());
        let wanted = columns[index].width.0 + gap;
        if wanted <= left {
            left -= wanted;
            shown.push((index, columns[index].width.0));
        } else if shown.is_empty() {
            shown.push((index, left));
            left = 0;
        } else {
            // A less important column is not to stand where this one had no room.
            break;
        }
    }
    shown.sort_unstable();
    for (index, width) in &mut shown {
        let more = columns[*index].width.1.min(left);
        *width += more;
        left -= more;
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct One(String, u32);

    impl Item for One {
        fn key(&self) -> &str {
            &self.0
        }

        fn words(&self) -> Vec<String> {
            vec![self.0.clone()]
        }
    }

    fn columns() -> [Column<One>; 2] {
        let name = Column {
            title: "NAME",
            width: (4, 6),
            rank: 0,
            kind: Kind::Text,
            text: |one: &One| one.0.clone(),
            compare: |a: &One, b: &One| a.0.cmp(&b.0),
        };
        let count = Column {
            title: "COUNT",
            width: (5, 0),
            rank: 1,
            kind: Kind::Figure,
            text: |one: &One| one.1.to_string(),
            compare: |a: &One, b: &One| a.1.cmp(&b.1),
        };
        [name, count]
    }

    fn items() -> Vec<One> {
        [("k", 1), ("a", 2), ("D", 3)].map(|(name, count)| One(name.to_owned(), count)).into()
    }

    fn names(view: &TableView, items: &[One]) -> String {
        view.ordered(&columns(), items).iter().map(|one| one.0.as_str()).collect()
    }

    #[test]
    fn figures_fall_and_texts_rise_unless_reversed() {
        let items = items();
        assert_eq!(names(&TableView::new(0), &items), "Dak");
        assert_eq!(names(&TableView::new(1), &items), "Dak");
        assert_eq!(names(&TableView { reversed: true, ..TableView::new(1) }, &items), "kaD");
        let mut view = TableView { reversed: true, ..TableView::new(0) };
        view.sort_next(2, false);
        assert_eq!((view.sort, view.reversed), (1, false));
        view.sort_next(2, true);
        assert_eq!(view.sort, 0);
    }

    #[test]
    fn a_filter_is_printable_bounded_and_of_no_case() {
        let mut view = TableView::new(0);
        for letter in ['\u{1b}', 'd', '\u{202e}'] {
            view.filter_more(letter);
        }
        assert_eq!((view.filter.as_str(), names(&view, &items()).as_str()), ("d", "D"));
        (0..1000).for_each(|_| view.filter_more('x'));
        assert_eq!((view.filter.len(), names(&view, &items()).as_str()), (FILTER_MAX, ""));
    }

    #[test]
    fn the_selection_follows_its_item_and_stays_inside() {
        let items = items();
        let mut view = TableView::new(1);
        let ordered = view.ordered(&columns(), &items);
        assert_eq!(view.select(&ordered), Some(0));
        view.step(&ordered, 1);
        view.reversed = true;
        assert_eq!(view.select(&view.clone().ordered(&columns(), &items)), Some(1), "a");
        view.step(&ordered, isize::MAX);
        assert_eq!(view.select(&ordered), Some(2));
        view.step(&ordered, isize::MIN);
        assert_eq!(view.select(&ordered), Some(0));
        assert_eq!(view.select::<One>(&[]), None);
        view.step::<One>(&[], 1);
    }

    #[test]
    fn columns_get_room_by_their_rank() {
        assert_eq!(fitting(&columns(), 0, 3), [(0, 3)]);
        assert_eq!(fitting(&columns(), 0, 9), [(0, 9)]);
        assert_eq!(fitting(&columns(), 0, 10), [(0, 4), (1, 5)]);
        assert_eq!(fitting(&columns(), 0, 99), [(0, 10), (1, 5)]);
        assert_eq!(fitting(&columns(), 0, 0), [(0, 0)]);
    }
}
