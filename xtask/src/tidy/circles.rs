// SPDX-License-Identifier: MIT OR Apache-2.0
//! No files of a crate import each other in a circle.
//!
//! In: the imports of each crate. Out: each file of a circle, with a shortest chain back to itself.
//! Strongly connected components: Tarjan, SIAM Journal on Computing 1(2), 1972.

use std::collections::{BTreeMap, VecDeque};

use super::modules::{Import, crates};
use super::tree::{Fault, Tree};

/// Each file that is part of a circle.
pub(super) fn none(tree: &Tree) -> Vec<Fault> {
    let mut faults = Vec::new();
    for one in crates(tree) {
        let imports = one.imports();
        let graph = Graph::new(&imports);
        for component in graph.components() {
            for file in component.iter().filter(|_| component.len() > 1) {
                faults.push(fault(&imports, file, &component));
            }
        }
    }
    faults
}

/// Says how `file` comes back to itself through the files of its component.
fn fault(imports: &[Import], file: &str, component: &[&str]) -> Fault {
    let inside: Vec<&Import> = imports
        .iter()
        .filter(|one| component.contains(&&*one.from) && component.contains(&&*one.to))
        .collect();
    let chain = shortest(&inside, file);
    let steps: Vec<String> =
        chain.iter().map(|one| format!("{}:{} names {}", one.from, one.line, one.to)).collect();
    let line = chain.first().map_or(0, |one| one.line);
    let what = format!(
        "is in a circle of {} files: {}; move what both need into a file below them",
        component.len(),
        steps.join(", ")
    );
    Fault { path: file.to_owned(), line, what }
}

/// The shortest chain of imports from `file` to itself.
fn shortest<'a>(imports: &[&'a Import], file: &str) -> Vec<&'a Import> {
    let mut came_by: BTreeMap<&str, &Import> = BTreeMap::new();
    let mut next = VecDeque::from([file]);
    while let Some(at) = next.pop_front() {
        for import in imports.iter().filter(|one| one.from == at) {
            if !came_by.contains_key(&*import.to) {
                came_by.insert(&import.to, import);
                next.push_back(&import.to);
            }
        }
    }
    let mut chain = Vec::new();
    let mut at = file;
    while let Some(import) = came_by.get(at) {
        chain.push(*import);
        at = &import.from;
        if at == file {
            break;
        }
    }
    chain.reverse();
    chain
}

struct Graph<'a> {
    names: Vec<&'a str>,
    edges: Vec<Vec<usize>>,
}

impl<'a> Graph<'a> {
    fn new(imports: &'a [Import]) -> Self {
        let mut names: Vec<&str> = imports.iter().flat_map(|one| [&*one.from, &*one.to]).collect();
        names.sort_unstable();
        names.dedup();
        let index = |name: &str| names.binary_search(&name).unwrap_or_default();
        let mut edges = vec![Vec::new(); names.len()];
        for import in imports {
            edges[index(&import.from)].push(index(&import.to));
        }
        Self { names, edges }
    }

    /// The strongly connected components, by names.
    fn components(&self) -> Vec<Vec<&'a str>> {
        let mut search = Search::new(self);
        for node in 0..self.names.len() {
            if search.seen[node].is_none() {
                search.visit(node);
            }
        }
        let named = |component: Vec<usize>| {
            let mut names: Vec<&str> = component.into_iter().map(|node| self.names[node]).collect();
            names.sort_unstable();
            names
        };
        search.found.into_iter().map(named).collect()
    }
}

/// Tarjan's search: depth first, each node with the earliest node that it reaches.
struct Search<'b, 'a> {
    graph: &'b Graph<'a>,
    /// When a node was met.
    seen: Vec<Option<usize>>,
    on_stack: Vec<bool>,
    stack: Vec<usize>,
    met: usize,
    found: Vec<Vec<usize>>,
}

impl<'b, 'a> Search<'b, 'a> {
    fn new(graph: &'b Graph<'a>) -> Self {
        let count = graph.names.len();
        Self {
            graph,
            seen: vec![None; count],
            on_stack: vec![false; count],
            stack: Vec::new(),
            met: 0,
            found: Vec::new(),
        }
    }

    /// Recursion is as deep as the longest chain of imports at most.
    fn visit(&mut self, node: usize) -> usize {
        let own = self.met;
        self.met += 1;
        let mut lowest = own;
        self.seen[node] = Some(own);
        self.stack.push(node);
        self.on_stack[node] = true;
        for &next in &self.graph.edges[node] {
            let reached = match self.seen[next] {
                None => self.visit(next),
                Some(met) if self.on_stack[next] => met,
                Some(_) => continue,
            };
            lowest = lowest.min(reached);
        }
        if lowest == own {
            let start = self.stack.iter().position(|one| *one == node).unwrap_or_default();
            let component = self.stack.split_off(start);
            for one in &component {
                self.on_stack[*one] = false;
            }
            self.found.push(component);
        }
        lowest
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_circle_is_found_with_its_files() {
        let tree = Tree::of(&[
            ("a/Cargo.toml", ""),
            ("a/src/lib.rs", "mod b; mod c; mod d; mod e;"),
            ("a/src/b.rs", "use crate::c::X;"),
            ("a/src/c.rs", "\nuse crate::d::Y;"),
            ("a/src/d.rs", "use crate::b::Z; use crate::e::E;"),
            ("a/src/e.rs", "pub struct E;"),
        ]);
        let faults: Vec<String> = none(&tree).iter().map(Fault::to_string).collect();
        assert_eq!(faults.len(), 3, "{faults:?}");
        assert_eq!(
            faults[1],
            "a/src/c.rs:2: is in a circle of 3 files: a/src/c.rs:2 names a/src/d.rs, a/src/d.rs:1 \
             names a/src/b.rs, a/src/b.rs:1 names a/src/c.rs; move what both need into a file \
             below them"
        );
    }

    #[test]
    fn a_parent_and_its_child_may_form_one_too() {
        let tree = Tree::of(&[
            ("a/Cargo.toml", ""),
            ("a/src/b/mod.rs", "mod c;\nuse self::c::X;"),
            ("a/src/b/c.rs", "use super::Y;"),
        ]);
        assert_eq!(none(&tree).len(), 2);
    }

    #[test]
    fn imports_downward_are_no_circle() {
        let tree = Tree::of(&[
            ("a/Cargo.toml", ""),
            ("a/src/b.rs", "use crate::c::X; use crate::d::Y;"),
            ("a/src/c.rs", "use crate::d::Y;"),
            ("a/src/d.rs", ""),
        ]);
        assert!(none(&tree).is_empty());
    }
}
