//! A chunk's filters undone, from the last to the first.

use super::Pipeline;
use super::checked::{CheckedFilter, PlainSize};
use super::error::FilterError;
use super::tools::{Tools, room};

impl Pipeline {
    /// Decodes a stored chunk into exactly `out`, which is one chunk long.
    ///
    /// Filter `i` is skipped where bit `i` of `mask` is set. On failure `out` holds rubbish.
    pub fn decode(&self, mask: u32, stored: &[u8], out: &mut [u8]) -> Result<(), FilterError> {
        if out.len() != self.chunk_bytes {
            return Err(FilterError::new("the room is not that of a chunk")
                .expected(self.chunk_bytes)
                .found(out.len()));
        }
        let mut live = Vec::with_capacity(self.stages.len());
        let mut size = self.plain_size();
        for (i, stage) in self.stages.iter().enumerate() {
            if mask >> i & 1 == 0 {
                live.push((stage, size));
                size = self.stored_size(stage, size);
            }
        }
        Tools::lend(self.chunk_bytes, |tools| {
            let mut between = std::mem::take(&mut tools.between);
            let done = undo_all(&live, tools, &mut between, stored, out);
            tools.between = between;
            done
        })
    }
}

/// Undoes filters, given in order of writing, each with the size of what it was applied to.
fn undo_all(
    live: &[(&CheckedFilter, PlainSize)],
    tools: &mut Tools,
    [held, spare]: &mut [Vec<u8>; 2],
    stored: &[u8],
    out: &mut [u8],
) -> Result<(), FilterError> {
    // The bytes so far are the first `len` of `held`, once there are any there, or of `stored`.
    let (mut in_held, mut len) = (false, stored.len());
    for (i, (stage, size)) in live.iter().enumerate().rev() {
        let named = |error: FilterError| error.of(stage.name());
        let input = if in_held {
            &held[..len]
        } else {
            &stored[..len]
        };
        if let Some(plain) = stage.view(input).map_err(named)? {
            len = plain.len();
        } else if i == 0 {
            len = stage.decode(tools, input, out).map_err(named)?;
            return check_size(*size, len).map_err(named);
        } else {
            let target = room(spare, size.most);
            len = stage.decode(tools, input, target).map_err(named)?;
            std::mem::swap(held, spare);
            in_held = true;
        }
        check_size(*size, len).map_err(named)?;
    }
    let plain = if in_held {
        &held[..len]
    } else {
        &stored[..len]
    };
    // Without filters the size is not checked yet.
    let exact = PlainSize {
        most: out.len(),
        exact: true,
    };
    check_size(exact, len)?;
    out.copy_from_slice(plain);
    Ok(())
}

fn check_size(size: PlainSize, found: usize) -> Result<(), FilterError> {
    let right = if size.exact {
        found == size.most
    } else {
        found <= size.most
    };
    match right {
        true => Ok(()),
        false => Err(FilterError::new("it decodes to a wrong number of bytes")
            .expected(size.most)
            .found(found)),
    }
}
