// SPDX-License-Identifier: MIT OR Apache-2.0
//! A lexer for Rust and C: code as tokens, comments apart, strings left out.
//!
//! In: the text of a file. Out: its tokens and its comments, each with its line. Called once for
//! each file by `Tree`; rules read the result. It takes one pass over the bytes, because the
//! compiler reports faults of syntax better: a file with unbalanced brackets has no tokens.

/// A token, as far as the rules tell tokens apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// An identifier or keyword.
    Word(String),
    /// `(`, `{` or `[`.
    Open(char),
    /// `)`, `}` or `]`.
    Close(char),
    /// One character of punctuation.
    Punct(char),
    /// A literal, without its value.
    Literal,
    /// `'a`, without its name.
    Lifetime,
}

/// A line comment, a block comment with all its lines, or a string.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Comment {
    /// From 1.
    pub(super) line: usize,
    /// Without the signs that begin and end it.
    pub(super) text: String,
    /// Whether code stands before it on its line.
    pub(super) trailing: bool,
}

/// A file as the rules see it.
#[derive(Debug, Default)]
pub(super) struct Source {
    pub(super) tokens: Vec<Token>,
    /// The line of each token, from 1.
    pub(super) lines: Vec<usize>,
    pub(super) comments: Vec<Comment>,
    /// Literals of text, as they stand in the file.
    pub(super) strings: Vec<Comment>,
}

impl Source {
    /// Reads `text`.
    pub(super) fn read(text: &str) -> Self {
        let mut lexer = Lexer { text, at: 0, line: 1, out: Self::default() };
        while lexer.at < text.len() {
            lexer.step();
        }
        let mut source = lexer.out;
        if !is_balanced(&source.tokens) {
            source.tokens.clear();
            source.lines.clear();
        }
        source
    }

    /// The index behind the group that the token at `open` opens.
    pub(super) fn group_end(&self, open: usize) -> usize {
        let mut depth = 0_usize;
        for (at, token) in self.tokens.iter().enumerate().skip(open) {
            match token {
                Token::Open(_) => depth += 1,
                Token::Close(_) => depth -= 1,
                _ => {}
            }
            if depth == 0 {
                return at + 1;
            }
        }
        self.tokens.len()
    }
}

fn is_balanced(tokens: &[Token]) -> bool {
    let mut open = Vec::new();
    for token in tokens {
        match token {
            Token::Open(sign) => open.push(*sign),
            Token::Close(sign) => {
                let expected = match sign {
                    ')' => '(',
                    ']' => '[',
                    _ => '{',
                };
                if open.pop() != Some(expected) {
                    return false;
                }
            }
            _ => {}
        }
    }
    open.is_empty()
}

struct Lexer<'a> {
    text: &'a str,
    at: usize,
    line: usize,
    out: Source,
}

impl Lexer<'_> {
    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn byte(&self, offset: usize) -> u8 {
        self.text.as_bytes().get(self.at + offset).copied().unwrap_or_default()
    }

    /// Passes `length` bytes and counts their lines.
    fn pass(&mut self, length: usize) {
        let end = (self.at + length).min(self.text.len());
        let passed = &self.text.as_bytes()[self.at..end];
        self.line += passed.iter().filter(|byte| **byte == b'\n').count();
        self.at = end;
    }

    fn push(&mut self, token: Token) {
        self.out.tokens.push(token);
        self.out.lines.push(self.line);
    }

    /// Takes one token, one comment or one blank.
    fn step(&mut self) {
        match self.byte(0) {
            b'/' if self.byte(1) == b'/' => self.line_comment(),
            b'/' if self.byte(1) == b'*' => self.block_comment(),
            b'"' => self.string(0),
            b'\'' => self.quote(),
            byte if byte.is_ascii_digit() => {
                self.push(Token::Literal);
                self.pass(number_length(self.rest()));
            }
            byte if is_name(byte) => self.name(),
            byte => {
                let sign = char::from(byte);
                match sign {
                    '(' | '{' | '[' => self.push(Token::Open(sign)),
                    ')' | '}' | ']' => self.push(Token::Close(sign)),
                    _ if byte.is_ascii_punctuation() => self.push(Token::Punct(sign)),
                    _ => {}
                }
                self.pass(1);
            }
        }
    }

    fn comment(&mut self, text: String) {
        let before = self.text[..self.at].rsplit('\n').next().unwrap_or_default();
        let trailing = !before.trim().is_empty();
        self.out.comments.push(Comment { line: self.line, text, trailing });
    }

    /// Takes a literal of text.
    fn text(&mut self, length: usize) {
        self.push(Token::Literal);
        let end = (self.at + length).min(self.text.len());
        let text = self.text[self.at..end].to_owned();
        self.out.strings.push(Comment { line: self.line, text, trailing: true });
        self.pass(length);
    }

    fn line_comment(&mut self) {
        let length = self.rest().find('\n').unwrap_or_else(|| self.rest().len());
        let text = &self.rest()[..length];
        let text = text.trim_start_matches('/').trim_start_matches('!').to_owned();
        self.comment(text);
        self.pass(length);
    }

    fn block_comment(&mut self) {
        let mut depth = 0_usize;
        let mut length = 0;
        loop {
            match (self.byte(length), self.byte(length + 1)) {
                (b'/', b'*') => depth += 1,
                (b'*', b'/') => depth -= 1,
                (0, _) if self.at + length >= self.text.len() => break,
                _ => {
                    length += 1;
                    continue;
                }
            }
            length += 2;
            if depth == 0 {
                break;
            }
        }
        let end = (self.at + length).min(self.text.len());
        let text = self.text[self.at..end].trim_start_matches("/*").trim_end_matches("*/");
        let lines = text.lines().map(|line| line.trim_start().trim_start_matches('*'));
        let text = lines.collect::<Vec<_>>().join("\n");
        self.comment(text);
        self.pass(length);
    }

    /// A string with escapes; its quote is `prefix` bytes ahead.
    fn string(&mut self, prefix: usize) {
        let mut length = prefix + 1;
        while self.at + length < self.text.len() {
            match self.byte(length) {
                b'\\' => length += 1,
                b'"' => break,
                _ => {}
            }
            length += 1;
        }
        self.text(length + 1);
    }

    /// A raw string; its `hashes` signs are `prefix` bytes ahead.
    fn raw_string(&mut self, prefix: usize, hashes: usize) {
        let end = format!("\"{}", "#".repeat(hashes));
        let start = prefix + hashes + 1;
        let rest = self.rest();
        let length = rest[start..].find(&end).map_or_else(|| rest.len(), |at| start + at);
        self.text(length + end.len());
    }

    /// A character or a lifetime.
    fn quote(&mut self) {
        let mut signs = self.rest().char_indices().skip(1);
        let (Some((_, first)), second) = (signs.next(), signs.next()) else {
            return self.pass(1);
        };
        if first == '\\' {
            // The sign behind the backslash may itself be a quote.
            let length = self.rest()[3..].find('\'').map_or(1, |at| at + 4);
            self.push(Token::Literal);
            return self.pass(length);
        }
        if let Some((at, '\'')) = second {
            self.push(Token::Literal);
            return self.pass(at + 1);
        }
        self.push(Token::Lifetime);
        let rest = &self.rest()[1..];
        let length = rest.bytes().take_while(|byte| is_name(*byte)).count();
        self.pass(length + 1);
    }

    /// An identifier, or the letters that begin a string.
    fn name(&mut self) {
        let length = self.rest().bytes().take_while(|byte| is_name(*byte)).count();
        let name = &self.rest()[..length];
        let after = &self.rest()[length..];
        let hashes = after.bytes().take_while(|byte| *byte == b'#').count();
        let quoted = after[hashes..].starts_with('"');
        match name {
            "r" | "br" | "cr" if quoted => self.raw_string(length, hashes),
            "b" | "c" if after.starts_with('"') => self.string(length),
            "b" if after.starts_with('\'') => self.pass(1),
            "r" if hashes == 1 => self.pass(2),
            _ => {
                let word = name.to_owned();
                self.push(Token::Word(word));
                self.pass(length);
            }
        }
    }
}

/// Whether a byte may stand in an identifier; all of UTF-8 beyond ASCII may.
fn is_name(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || byte == b'_' || byte >= 0x80
}

/// A number with its suffix; a dot belongs to it if a digit follows.
fn number_length(text: &str) -> usize {
    let bytes = text.as_bytes();
    let mut length = 0;
    while let Some(byte) = bytes.get(length) {
        let fraction = *byte == b'.' && bytes.get(length + 1).is_some_and(u8::is_ascii_digit);
        if !is_name(*byte) && !fraction {
            break;
        }
        length += 1;
    }
    length
}

/// Whether `token` is the word `word`.
pub(super) fn is_word(token: Option<&Token>, word: &str) -> bool {
    matches!(token, Some(Token::Word(found)) if found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        let tokens = Source::read(text).tokens.into_iter();
        let words = tokens.filter_map(|token| match token {
            Token::Word(word) => Some(word),
            _ => None,
        });
        words.collect()
    }

    #[test]
    fn comments_and_strings_are_not_words() {
        let source = "// rustix\n/* rustix */ /// rustix\nfn f<'a>() { \"rustix\"; '\\''; xdp }";
        assert_eq!(words(source), ["fn", "f", "xdp"]);
    }

    #[test]
    fn every_kind_of_literal_is_passed() {
        let source = "b\"x\" c\"x\" r\"x\\\" br##\"x\"# y\"## 'x' '\\n' b'x' '\\u{1F}' \"\\\"x\" \
                      1.5e3_f64 0xff 1..z r#type 'a: loop é";
        assert_eq!(words(source), ["z", "type", "loop", "é"]);
    }

    #[test]
    fn a_text_that_is_not_rust_has_no_tokens() {
        assert!(Source::read("fn {").tokens.is_empty());
        assert!(Source::read("fn (}").tokens.is_empty());
    }

    #[test]
    fn tokens_and_comments_have_their_lines() {
        let source = Source::read("/* a\n * b */\nfn f() {} // c\n//! d\n\"\n\" g");
        assert_eq!(source.lines, [3, 3, 3, 3, 3, 3, 5, 6]);
        let comments: Vec<(usize, &str, bool)> =
            source.comments.iter().map(|one| (one.line, &*one.text, one.trailing)).collect();
        assert_eq!(comments, [(1, "a\n b ", false), (3, " c", true), (4, " d", false)]);
    }

    #[test]
    fn a_group_ends_with_its_bracket() {
        let source = Source::read("a { b ( c ) } d");
        assert_eq!(source.group_end(1), 7);
        assert_eq!(source.group_end(3), 6);
    }
}
