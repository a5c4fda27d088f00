// SPDX-License-Identifier: MIT OR Apache-2.0
//! Pages on screens of several sizes, with keys and hostile text.
