//! Lists that a file may make long, made so that a refusal is an error. `doing` says what failed:
//! "cannot read the header". Used by everything that reads.

use super::no_memory;
use crate::error::Result;

/// `len` zeros.
pub fn zeros(len: u64, doing: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    lengthen(
        &mut bytes,
        usize::try_from(len).unwrap_or(usize::MAX),
        doing,
    )?;
    Ok(bytes)
}

/// Makes a list so long, with zeros behind what it has.
pub fn lengthen<T: Clone + Default>(list: &mut Vec<T>, len: usize, doing: &str) -> Result<()> {
    let more = len.saturating_sub(list.len());
    let reserved = list.try_reserve_exact(more);
    reserved.map_err(|_| no_memory(doing))?;
    list.resize(len, T::default());
    Ok(())
}

/// A list of these, with room for no more.
pub fn copy<T: Copy>(from: &[T], doing: &str) -> Result<Vec<T>> {
    let mut list = room_for(from.len(), doing)?;
    list.extend_from_slice(from);
    Ok(list)
}

/// An empty list with room for so many.
pub fn room_for<T>(count: usize, doing: &str) -> Result<Vec<T>> {
    let mut list = Vec::new();
    let reserved = list.try_reserve_exact(count);
    reserved.map_err(|_| no_memory(doing))?;
    Ok(list)
}

/// Adds one to a list that grows.
pub fn push<T>(list: &mut Vec<T>, one: T, doing: &str) -> Result<()> {
    let reserved = list.try_reserve(1);
    reserved.map_err(|_| no_memory(doing))?;
    list.push(one);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::refusing::refusing;

    #[test]
    fn what_is_refused_is_an_error() {
        const MANY: usize = 100_000;
        let made: [fn() -> bool; 4] = [
            || zeros(MANY as u64, "x").is_ok(),
            || copy(&[7; MANY], "x").is_ok(),
            || room_for::<u8>(MANY, "x").is_ok(),
            || {
                let mut list = Vec::new();
                (0..MANY).all(|n| push(&mut list, n, "x").is_ok())
            },
        ];
        for make in made {
            assert!(make());
            let (made, refused) = refusing(0, make);
            assert!(refused && !made);
        }
    }
}
