// SPDX-License-Identifier: MIT OR Apache-2.0
//! Reads one file: its modules, items, `use` declarations, `impl` blocks and paths.
//!
//! In: tokens. Out: a [`Module`] for the file and for each module inside of it. Code for tests is
//! left out. Called by `Crate`.

use std::collections::BTreeMap;

use crate::tidy::tokens::{Source, Token, is_word};
use crate::tidy::tree::SourceFile;

/// Keywords before the name of an item.
const ITEMS: &[&str] =
    &["struct", "enum", "union", "trait", "type", "fn", "const", "static", "macro_rules"];

/// A module of a crate.
#[derive(Debug)]
pub(crate) struct Module<'a> {
    pub(crate) file: &'a SourceFile,
    pub(crate) uses: Vec<Use>,
    pub(crate) items: Vec<Item>,
    pub(crate) impls: Vec<Impl>,
    /// Paths in expressions and types, with their lines.
    pub(crate) paths: Vec<(usize, Vec<String>)>,
}

/// A name that a module defines.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) line: usize,
    /// The keyword before the name.
    pub(crate) keyword: String,
    pub(crate) name: String,
}

/// An `impl` block, without generic arguments.
#[derive(Debug)]
pub(crate) struct Impl {
    pub(crate) of_trait: Option<String>,
    /// Whether it is in a macro, for a type that the caller gives.
    pub(crate) is_template: bool,
}

/// A name that a `use` declaration gives to a module.
#[derive(Debug)]
pub(crate) struct Use {
    pub(crate) line: usize,
    pub(crate) path: Vec<String>,
    /// `*` is every name.
    pub(crate) name: String,
    pub(crate) is_public: bool,
}

impl<'a> Module<'a> {
    fn new(file: &'a SourceFile) -> Self {
        Self { file, uses: vec![], items: vec![], impls: vec![], paths: vec![] }
    }

    /// Whether it has an item of this name.
    pub(crate) fn defines(&self, name: &str) -> bool {
        self.items.iter().any(|item| item.name == name)
    }
}

/// The path of the module `name` in `module`.
pub(crate) fn child(module: &[String], name: &str) -> Vec<String> {
    let mut path = module.to_vec();
    path.push(name.to_owned());
    path
}

/// Reads the items of one file, module by module.
pub(crate) struct Reader<'b, 'a> {
    pub(crate) file: &'a SourceFile,
    pub(crate) source: &'a Source,
    pub(crate) modules: &'b mut BTreeMap<Vec<String>, Module<'a>>,
}

impl<'a> Reader<'_, 'a> {
    fn word(&self, at: usize) -> Option<&'a str> {
        match self.source.tokens.get(at) {
            Some(Token::Word(word)) => Some(word),
            _ => None,
        }
    }

    fn is(&self, at: usize, signs: &[Token]) -> bool {
        self.source.tokens.get(at..).is_some_and(|rest| rest.starts_with(signs))
    }

    /// Reads the tokens from `at` to `end` as the content of the module `path`.
    pub(crate) fn read(&mut self, mut at: usize, end: usize, path: &[String]) {
        let file = self.file;
        let mut module = self.modules.remove(path).unwrap_or_else(|| Module::new(file));
        let mut depth = 0_usize;
        while at < end {
            at = match &self.source.tokens[at] {
                Token::Open('{') => {
                    depth += 1;
                    at + 1
                }
                Token::Close('}') => {
                    depth -= 1;
                    at + 1
                }
                Token::Punct('#') => self.attribute(at),
                Token::Word(word) => match &**word {
                    "mod" if self.is(at + 2, &[Token::Open('{')]) => {
                        let behind = self.source.group_end(at + 2);
                        let name = self.word(at + 1).unwrap_or_default();
                        self.read(at + 3, behind - 1, &child(path, name));
                        behind
                    }
                    "use" if !self.is(at + 1, &[Token::Punct('<')]) => {
                        let is_public = self.is_public(at);
                        self.use_tree(at + 1, &[], is_public, &mut module.uses)
                    }
                    keyword if ITEMS.contains(&keyword) && depth == 0 => {
                        module.items.extend(self.item(at, keyword));
                        at + 1
                    }
                    "impl" => {
                        module.impls.push(self.block(at));
                        at + 1
                    }
                    _ => self.path(at, &mut module.paths),
                },
                _ => at + 1,
            };
        }
        self.modules.insert(path.to_vec(), module);
    }

    /// The item with its keyword at `at`.
    fn item(&self, at: usize, keyword: &str) -> Option<Item> {
        let name = at + 1 + usize::from(self.is(at + 1, &[Token::Punct('!')]));
        Some(Item {
            line: self.source.lines[at],
            keyword: keyword.to_owned(),
            name: self.word(name)?.to_owned(),
        })
    }

    /// The head of the `impl` block at `at`.
    fn block(&self, at: usize) -> Impl {
        let mut angles = 0_usize;
        let (mut name, mut of_trait) = (None, None);
        let mut is_template = false;
        for behind in at + 1..self.source.tokens.len() {
            match &self.source.tokens[behind] {
                Token::Punct('<') => angles += 1,
                // The end of an arrow closes nothing.
                Token::Punct('>') if !self.is(behind - 1, &[Token::Punct('-')]) => {
                    angles = angles.saturating_sub(1);
                }
                Token::Word(word) if angles == 0 => match &**word {
                    "for" => of_trait = name.take(),
                    "where" => break,
                    word => name = Some(word.to_owned()),
                },
                Token::Open('{') if angles == 0 => break,
                Token::Punct('$') => is_template = true,
                _ => {}
            }
        }
        Impl { of_trait, is_template }
    }

    /// The index behind an attribute; behind the whole item if it is for tests.
    fn attribute(&self, at: usize) -> usize {
        let open = at + 1 + usize::from(self.is(at + 1, &[Token::Punct('!')]));
        if !self.is(open, &[Token::Open('[')]) {
            return at + 1;
        }
        let behind = self.source.group_end(open);
        let inside = &self.source.tokens[open + 1..behind - 1];
        let has = |word: &str| inside.iter().any(|token| is_word(Some(token), word));
        if is_word(inside.first(), "cfg") && has("test") && !has("not") {
            self.item_end(behind)
        } else {
            behind
        }
    }

    /// The index behind the item that begins at `at`, attributes included.
    fn item_end(&self, mut at: usize) -> usize {
        while let Some(token) = self.source.tokens.get(at) {
            match token {
                Token::Open('{') => return self.source.group_end(at),
                Token::Open(_) => at = self.source.group_end(at),
                Token::Punct(';') => return at + 1,
                Token::Close(_) => return at,
                _ => at += 1,
            }
        }
        at
    }

    /// Whether the item at `at` has `pub` before it, or `pub(…)`.
    fn is_public(&self, at: usize) -> bool {
        let before = self.source.tokens[..at].iter().rev();
        let mut before = before.skip_while(|token| {
            matches!(token, Token::Close(')') | Token::Open('('))
                || ["crate", "super", "self", "in"].iter().any(|word| is_word(Some(token), word))
        });
        is_word(before.next(), "pub")
    }

    /// Reads one branch of a `use` declaration; the index behind it.
    fn use_tree(&self, mut at: usize, prefix: &[String], public: bool, to: &mut Vec<Use>) -> usize {
        let mut path = prefix.to_vec();
        let line = self.source.lines.get(at).copied().unwrap_or_default();
        let found = |path: Vec<String>, name: &str| Use {
            line,
            path,
            name: name.to_owned(),
            is_public: public,
        };
        loop {
            match self.source.tokens.get(at) {
                Some(Token::Word(word)) if word == "as" => {
                    to.push(found(path, self.word(at + 1).unwrap_or_default()));
                    return at + 2;
                }
                Some(Token::Word(word)) => path.push(word.clone()),
                Some(Token::Punct(':')) => {}
                Some(Token::Punct('*')) => {
                    to.push(found(path, "*"));
                    return at + 1;
                }
                Some(Token::Open('{')) => {
                    let behind = self.source.group_end(at);
                    at += 1;
                    while at + 1 < behind {
                        at = self.use_tree(at, &path, public, to);
                        at += usize::from(self.is(at, &[Token::Punct(',')]));
                    }
                    return behind;
                }
                _ => {
                    if path.last().is_some_and(|last| last == "self") && path.len() > 1 {
                        path.pop();
                    }
                    let name = path.last().cloned().unwrap_or_default();
                    to.push(found(path, &name));
                    return at;
                }
            }
            at += 1;
        }
    }

    /// Reads `a::b::c`, if it begins at `at`; the index behind it.
    fn path(&self, at: usize, to: &mut Vec<(usize, Vec<String>)>) -> usize {
        let colons = [Token::Punct(':'), Token::Punct(':')];
        let goes_on = at >= 2 && self.is(at - 2, &colons);
        let mut path: Vec<String> = self.word(at).map(str::to_owned).into_iter().collect();
        let mut behind = at + 1;
        while self.is(behind, &colons)
            && let Some(next) = self.word(behind + 2)
        {
            path.push(next.to_owned());
            behind += 3;
        }
        if path.len() > 1 && !goes_on {
            to.push((self.source.lines[at], path));
        }
        behind
    }
}
