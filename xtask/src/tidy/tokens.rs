// SPDX-License-Identifier: MIT OR Apache-2.0
//! Rust source as tokens, so that rules see code and neither comments nor strings.
//!
//! Called by the rules. A file that is not Rust yields no token: the compiler says so better.

use proc_macro2::{Delimiter, TokenStream, TokenTree};

/// A token, as far as the rules tell tokens apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Token {
    /// An identifier or keyword.
    Word(String),
    /// `(`, `{`, `[`; the end of a group is not shown.
    Open(char),
    /// One character of punctuation.
    Punct(char),
    /// A literal, whatever it says.
    Literal,
}

/// The tokens of `source` in order, groups opened.
pub(super) fn tokens(source: &str) -> Vec<Token> {
    let mut flat = Vec::new();
    if let Ok(stream) = source.parse::<TokenStream>() {
        flatten(stream, &mut flat);
    }
    flat
}

fn flatten(stream: TokenStream, into: &mut Vec<Token>) {
    for tree in stream {
        match tree {
            TokenTree::Ident(word) => into.push(Token::Word(word.to_string())),
            TokenTree::Punct(punct) => into.push(Token::Punct(punct.as_char())),
            TokenTree::Literal(_) => into.push(Token::Literal),
            TokenTree::Group(group) => {
                match group.delimiter() {
                    Delimiter::Parenthesis => into.push(Token::Open('(')),
                    Delimiter::Brace => into.push(Token::Open('{')),
                    Delimiter::Bracket => into.push(Token::Open('[')),
                    Delimiter::None => {}
                }
                flatten(group.stream(), into);
            }
        }
    }
}

/// Whether `token` is the word `word`.
pub(super) fn is_word(token: Option<&Token>, word: &str) -> bool {
    matches!(token, Some(Token::Word(found)) if found == word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn comments_and_strings_are_not_words() {
        let source = "// rustix\n/* rustix */ /// rustix\nfn f<'a>() { \"rustix\"; '\\''; xdp }";
        let words: Vec<Token> =
            tokens(source).into_iter().filter(|token| matches!(token, Token::Word(_))).collect();
        let expected = ["doc", "fn", "f", "a", "xdp"];
        assert_eq!(words, expected.map(|word| Token::Word(word.to_owned())));
    }

    #[test]
    fn what_is_not_rust_has_no_tokens() {
        assert!(tokens("fn {").is_empty());
    }
}
