//! The metadata file that the program writes beside each file: `NAME.dbdf.meta`, JSON.
//!
//! Only its value type is used, to tell the two forms apart where the file itself cannot. One that
//! is missing, too long or not understood says nothing. It is part of the container's identity.

use std::path::Path;

use crate::container::{beside, candidate};
use crate::error::Result;
use crate::memory::fallible;
use crate::source::Store;

/// Follows the name of the file that it belongs to.
pub(super) const SUFFIX: &str = ".meta";
/// Bytes of a metadata file that is looked into.
const MOST: u64 = 64 << 10;

/// Whether there is one, as far as can be seen.
pub(super) fn is_there(store: &dyn Store, path: &Path) -> bool {
    store.stat(&beside(path, SUFFIX)).is_ok()
}

/// `valueType` of the file that belongs to `path`.
pub(super) fn value_type(store: &dyn Store, path: &Path) -> Result<Option<String>> {
    let source = match store.open(&beside(path, SUFFIX)) {
        Ok(source) => source,
        Err(e) if candidate::is_no_file(&e) => return Ok(None),
        Err(failed) => return Err(failed),
    };
    let len = source.len();
    if len > MOST {
        return Ok(None);
    }
    let mut text = fallible::zeros(len, "cannot read the metadata beside a file")?;
    source.fetch_one(0, &mut text)?;
    let json: Option<serde_json::Value> = serde_json::from_slice(&text).ok();
    let value = json.as_ref().and_then(|json| json.get("valueType"));
    Ok(value.and_then(|value| value.as_str()).map(str::to_owned))
}
