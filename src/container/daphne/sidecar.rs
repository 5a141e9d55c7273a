//! The metadata file that the program writes beside each file: `NAME.dbdf.meta`, JSON.
//!
//! Only its value type is used, to tell the two forms apart where the file itself cannot. One that is
//! missing, too long or not understood says nothing. It is part of the container's identity.

use std::path::Path;

use crate::container::{beside, candidate};
use crate::error::{Error, Result};
use crate::source::Store;

/// Follows the name of the file that it belongs to.
pub(super) const SUFFIX: &str = ".meta";
/// Bytes of a metadata file that is looked into.
const MOST: usize = 64 << 10;

/// `valueType` of the file that belongs to `path`.
pub(super) fn value_type(store: &dyn Store, path: &Path) -> Result<Option<String>> {
    let source = match store.open(&beside(path, SUFFIX)) {
        Ok(source) => source,
        Err(Error::Io { cause, .. }) if candidate::is_no_file(&cause) => return Ok(None),
        Err(failed) => return Err(failed),
    };
    let mut text = vec![0; MOST];
    let Some(text) = usize::try_from(source.len())
        .ok()
        .and_then(|len| text.get_mut(..len))
    else {
        return Ok(None);
    };
    source.fetch_one(0, text)?;
    let json: Option<serde_json::Value> = serde_json::from_slice(text).ok();
    let value = json.as_ref().and_then(|json| json.get("valueType"));
    Ok(value.and_then(|value| value.as_str()).map(str::to_owned))
}
