//! The keys that an `arrays.json` can have. Of what a program writes by hand none may be passed
//! over in silence: a key that is not known is refused by its name. Used by [`super::description`].

use serde_json::{Map, Value};

use super::description::{GivenArray, GivenDescription};
use crate::error::{Error, Result};

/// Of the file, beside those that have fields of their own.
const OF_FILE: &[&str] = &[
    "format",
    "version",
    "arrays",
    "attributes",
    "containers",
    "attribute_types",
    "groups",
    "group_details",
    "dimensions",
    "hard_links",
    "soft_links",
    "external_links",
    "netcdf4",
    "classic",
    "user_block",
    "omitted",
    "unreadable",
    "types",
    "links",
    "read_only",
    "read_only_arrays",
    "beside",
    "faults",
];

/// Of an array.
const OF_ARRAY: &[&str] = &[
    "name",
    "dtype",
    "shape",
    "order",
    "bytes",
    "stored_bytes",
    "blocks",
    "codec",
    "space",
    "unfiltered",
    "line_feeds",
    "dims",
    "type",
    "maxshape",
    "layout",
    "chunks",
    "filters",
    "fill",
    "fill_stored",
    "fill_time",
    "alloc_time",
    "partial_chunks",
    "scale",
    "scales",
    "external",
    "creation_order",
    "attributes",
    "attribute_types",
];

/// Of a dimension.
const OF_DIMENSION: &[&str] = &["length", "unlimited", "id"];

/// Keys of arrays that mean something in every format.
const EVERYWHERE: &[&str] = &["stored_bytes", "blocks", "attributes"];

/// Whether all keys are known.
pub(super) fn check(description: &GivenDescription) -> Result<()> {
    check_map(&description.more, OF_FILE, "arrays.json")?;
    for array in &description.arrays {
        check_map(
            &array.more,
            OF_ARRAY,
            &format!("arrays.json: {}", array.name),
        )?;
    }
    let no_object = |what: &str| Error::Invalid(format!("{what}: this is no object"));
    let Some(dimensions) = description.more.get("dimensions") else {
        return Ok(());
    };
    let dimensions = dimensions.as_object();
    for (name, dimension) in dimensions.ok_or_else(|| no_object("arrays.json: dimensions"))? {
        let of = format!("arrays.json: the dimension {name}");
        let dimension = dimension.as_object().ok_or_else(|| no_object(&of))?;
        check_map(dimension, OF_DIMENSION, &of)?;
    }
    Ok(())
}

fn check_map(of: &Map<String, Value>, known: &[&str], what: &str) -> Result<()> {
    match of.keys().find(|key| !known.contains(&key.as_str())) {
        None => Ok(()),
        Some(other) => {
            let near = near(other, known).map(|near| format!("; did you mean {near}?"));
            let near = near.unwrap_or_default();
            Err(Error::Invalid(format!(
                "{what}: there is no key {other}{near}"
            )))
        }
    }
}

fn near<'a>(key: &str, known: &[&'a str]) -> Option<&'a str> {
    let distance = |known: &str| strsim::damerau_levenshtein(key, known);
    let nearest = known.iter().map(|known| (distance(known), *known)).min()?;
    (nearest.0 <= 2 && nearest.0 < key.len()).then_some(nearest.1)
}

impl GivenArray {
    /// Refuses names of other dimensions than an array of so many has.
    pub fn check_dims(&self, rank: usize) -> std::result::Result<(), String> {
        for key in ["dims", "scales"] {
            let Some(said) = self.more.get(key) else {
                continue;
            };
            let named = said.as_array().map(Vec::len);
            let named = named.ok_or_else(|| format!("{key} {said} is no list"))?;
            if named != rank {
                let why = format!("{key} names {named} dimensions of its {rank}");
                return Err(why);
            }
        }
        Ok(())
    }
}

impl GivenDescription {
    /// Refuses what is said of arrays by hand and that a format, with these further keys, has no
    /// place for. `codecs`: that it prints, of one that does not leave it to the description.
    pub fn check_keys(
        &self,
        format: &str,
        further: &[&str],
        codecs: Option<&[&str]>,
    ) -> Result<()> {
        for array in self.arrays.iter().filter(|array| !array.is_told()) {
            let codec = array.codec.as_deref().zip(codecs);
            if let Some((codec, _)) = codec.filter(|(codec, known)| !known.contains(codec)) {
                let name = &array.name;
                let why = format!("arrays.json: {name}: there is no codec {codec} in {format}");
                return Err(Error::Invalid(why));
            }
            let is_known = |key: &str| EVERYWHERE.contains(&key) || further.contains(&key);
            if let Some(other) = array.more.keys().find(|key| !is_known(key)) {
                let name = &array.name;
                let why = format!("arrays.json: {name}: {other} means nothing in {format}");
                return Err(Error::Invalid(why));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(more: &str, of_array: &str) -> std::result::Result<GivenDescription, String> {
        let text = format!(
            r#"{{{more}"arrays": [{{"name": "a", "dtype": "u2", "shape": [1]{of_array}}}]}}"#
        );
        GivenDescription::parse(text.as_bytes()).map_err(|e| e.to_string())
    }

    #[test]
    fn a_key_that_is_not_known_is_refused_by_name() {
        let refused = |more: &str, of_array: &str, parts: &[&str]| {
            let why = parsed(more, of_array).unwrap_err();
            assert!(parts.iter().all(|part| why.contains(part)), "{why}");
        };
        refused(
            "",
            r#", "chunk": [1]"#,
            &["a: there is no key chunk", "did you mean chunks?"],
        );
        refused("", r#", "units": "m""#, &["a: there is no key units"]);
        refused(
            r#""attribute": {}, "#,
            "",
            &["no key attribute; did you mean attributes?"],
        );
        refused(
            r#""dimensions": {"t": {"len": 1}}, "#,
            "",
            &["the dimension t", "no key len"],
        );
        assert!(parsed("", r#", "chunks": [1], "attributes": {"units": "m"}"#).is_ok());
    }

    #[test]
    fn a_format_refuses_what_it_has_no_place_for() {
        let check = |of_array: &str| {
            let parsed = parsed("", of_array).unwrap();
            parsed.check_keys("x", &["dims"], Some(&["none"]))
        };
        assert!(check(r#", "codec": "none""#).is_ok() && check(r#", "codec": "gzip""#).is_err());
        assert!(check(r#", "dims": ["t"]"#).is_ok());
        let refused = check(r#", "chunks": [1]"#).unwrap_err().to_string();
        assert!(
            refused.contains("a: chunks means nothing in x"),
            "{refused}"
        );
        // What was told of another file says all that it has.
        assert!(check(r#", "chunks": [1], "stored_bytes": 2"#).is_ok());
    }

    #[test]
    fn types_have_all_names_that_numpy_has_for_them() {
        assert_eq!(parsed("", "").unwrap().arrays[0].dtype, "uint16");
    }
}
