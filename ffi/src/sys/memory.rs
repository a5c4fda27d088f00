// SPDX-License-Identifier: MIT OR Apache-2.0
//! Allocations of a length that an application chooses, and long ones: a refusal is an error.
//!
//! In: a length. Out: a vector, or [`Error::NoMemory`]. Called when objects are opened, and when
//! tables grow. Bound: the caller's.

use zerocopy::FromZeros as _;

use crate::sys::errno::Error;

/// `count` copies of `element`.
///
/// # Errors
/// [`Error::NoMemory`].
pub(crate) fn filled<T: Clone>(element: T, count: usize) -> Result<Vec<T>, Error> {
    let mut elements = Vec::new();
    grow(&mut elements, element, count)?;
    Ok(elements)
}

/// `count` bytes of zero, whose pages take memory when they are used.
///
/// # Errors
/// [`Error::NoMemory`].
pub(crate) fn zeroed(count: usize) -> Result<Vec<u8>, Error> {
    u8::new_vec_zeroed(count).map_err(|_| Error::NoMemory)
}

/// Makes `elements` at least `count` long, by copies of `element`.
///
/// # Errors
/// [`Error::NoMemory`]; then it is as before.
pub(crate) fn grow<T: Clone>(elements: &mut Vec<T>, element: T, count: usize) -> Result<(), Error> {
    let more = count.saturating_sub(elements.len());
    elements.try_reserve(more).map_err(|_| Error::NoMemory)?;
    if more > 0 {
        elements.resize(count, element);
    }
    Ok(())
}

/// Appends `element`.
///
/// # Errors
/// [`Error::NoMemory`]; then it is as before.
pub(crate) fn push<T>(elements: &mut Vec<T>, element: T) -> Result<(), Error> {
    elements.try_reserve(1).map_err(|_| Error::NoMemory)?;
    elements.push(element);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vector_grows_and_never_shrinks() {
        let mut elements = filled(7, 2).unwrap();
        grow(&mut elements, 8, 3).unwrap();
        grow(&mut elements, 9, 1).unwrap();
        push(&mut elements, 6).unwrap();
        assert_eq!(elements, [7, 7, 8, 6]);
        assert_eq!(zeroed(3).unwrap(), [0; 3]);
    }

    #[test]
    fn a_refusal_is_an_error_and_changes_nothing() {
        let mut elements = vec![1_u64];
        assert_eq!(grow(&mut elements, 2, usize::MAX / 8), Err(Error::NoMemory));
        assert_eq!(elements, [1]);
        assert_eq!(zeroed(isize::MAX as usize).err(), Some(Error::NoMemory));
    }
}
