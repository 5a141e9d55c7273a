//! Dimension scales: those of HDF5 files as they are described, and of NetCDF-4 files one for every
//! dimension.
//!
//! In NetCDF-4 a dimension is a dataset: the variable of its name, if there is one, else one
//! without values. Where no names are given they are those that netCDF's own library makes up, one
//! for each length. Used by [`super::objects`].

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::dataset::ByPath;
use super::maker::{IfRefused, Maker};
use super::types::{self, inner_rank, stated};
use super::{NewFileKind, names};
use crate::container::creation::{GivenContent, GivenDescription};
use crate::container::hdf5::index::UNLIMITED;
use crate::container::hdf5::made::{
    MadeAttribute, MadeDataset, MadeFill, MadeStorage, MadeValue, MakeStep,
};
use crate::container::names::unescaped;
use crate::container::stored::{Padding, StoredType};
use crate::error::Result;

/// How the title of a dimension begins that has no variable; ten places for its length follow.
const ALONE: &str = "This is a netCDF dimension but not a netCDF variable.";

/// What the root says of a file that netCDF's programs wrote.
const PROPERTIES: &str = concat!("version=2,arrayfs=", env!("CARGO_PKG_VERSION"));

/// Chunks of a dimension without end, which nothing is stored of.
const ALONE_CHUNK: u64 = 1024;

#[derive(Debug, Default, Clone)]
struct GivenDimension {
    length: u64,
    unlimited: bool,
    id: u64,
}

/// An array as far as its dimensions go.
struct GivenVariable {
    name: String,
    /// Of each dimension: its scales, by their names.
    scales: Vec<Vec<String>>,
    /// It is a scale of this title.
    title: Option<String>,
}

pub(super) struct GivenDimensions {
    kind: NewFileKind,
    all: BTreeMap<String, GivenDimension>,
    variables: Vec<GivenVariable>,
    properties: String,
    is_strict: bool,
}

impl GivenDimensions {
    pub(super) fn of(
        kind: NewFileKind,
        content: &GivenContent,
        description: &GivenDescription,
        by_path: &ByPath<'_>,
    ) -> GivenDimensions {
        let netcdf = description.more.get("netcdf4").unwrap_or(&Value::Null);
        let properties = netcdf["properties"].as_str().unwrap_or(PROPERTIES);
        let mut dimensions = GivenDimensions {
            kind,
            all: described(description),
            variables: Vec::new(),
            properties: properties.to_owned(),
            is_strict: netcdf["strict"] == true,
        };
        for array in &content.arrays {
            let name = array.name();
            let described = by_path.get(name).copied();
            let bytes = array.info().map_or(0, |info| info.bytes);
            let shape = match described {
                None => vec![bytes],
                Some(array) => {
                    let inner = types::read(stated(array)).ok();
                    let inner = inner.as_ref().map_or(0, inner_rank);
                    let rank = array.shape.len().saturating_sub(inner);
                    array.shape[..rank].to_vec()
                }
            };
            let member = |key: &str| described.and_then(|array| array.more.get(key));
            let mut variable = GivenVariable {
                name: name.to_owned(),
                scales: vec![Vec::new(); shape.len()],
                title: member("scale").and_then(Value::as_str).map(str::to_owned),
            };
            let list = |key: &str| member(key).and_then(Value::as_array).into_iter().flatten();
            for (scales, dim) in variable.scales.iter_mut().zip(list("dims")) {
                scales.extend(dim.as_str().map(str::to_owned));
            }
            for (scales, several) in variable.scales.iter_mut().zip(list("scales")) {
                let several = several.as_array().into_iter().flatten();
                let several: Vec<&str> = several.filter_map(Value::as_str).collect();
                if !several.is_empty() {
                    *scales = several.into_iter().map(str::to_owned).collect();
                }
            }
            let most = member("maxshape").and_then(Value::as_array);
            if kind == NewFileKind::NetCdf4 {
                dimensions.complete(&mut variable, &shape, most);
            }
            dimensions.variables.push(variable);
        }
        dimensions.name_scales(content);
        dimensions
    }

    /// Every dimension of a variable gets a name, and every name is a dimension, as long as its
    /// longest variable.
    fn complete(&mut self, variable: &mut GivenVariable, shape: &[u64], most: Option<&Vec<Value>>) {
        for (at, (scales, &len)) in variable.scales.iter_mut().zip(shape).enumerate() {
            let unlimited = most.is_some_and(|most| most.get(at) == Some(&Value::Null));
            let name = match scales.first() {
                Some(name) => name.clone(),
                None => self.made_up(len, unlimited),
            };
            scales.truncate(1);
            if scales.is_empty() {
                scales.push(name.clone());
            }
            let next = self.next_id();
            let dimension = self.all.entry(name).or_insert(GivenDimension {
                length: len,
                unlimited,
                id: next,
            });
            dimension.length = dimension.length.max(len);
            dimension.unlimited |= unlimited;
        }
    }

    fn next_id(&self) -> u64 {
        let ids = self.all.values().map(|dimension| dimension.id);
        ids.max().map_or(0, |id| id.saturating_add(1))
    }

    fn made_up(&self, length: u64, unlimited: bool) -> String {
        let is_made_up = |name: &str| name.starts_with("phony_dim_");
        let fits = |dimension: &GivenDimension| {
            dimension.length == length && dimension.unlimited == unlimited
        };
        let found = self
            .all
            .iter()
            .find(|(name, dimension)| is_made_up(name) && fits(dimension));
        match found {
            Some((name, _)) => name.clone(),
            None => {
                let made = self.all.keys().filter(|name| is_made_up(name)).count();
                format!("phony_dim_{made}")
            }
        }
    }

    /// In NetCDF-4 the variable of a dimension's name is its scale; elsewhere names that lead to no
    /// scale are labels.
    fn name_scales(&mut self, content: &GivenContent) {
        let is_array = |name: &String| content.arrays.iter().any(|array| array.name() == *name);
        if self.kind == NewFileKind::NetCdf4 {
            for variable in &mut self.variables {
                let own = variable.scales.first().and_then(|scales| scales.first());
                if own == Some(&variable.name) {
                    let base = variable
                        .name
                        .rsplit('/')
                        .next()
                        .unwrap_or_default()
                        .to_owned();
                    variable.title.get_or_insert(base);
                }
            }
            return;
        }
        for variable in &mut self.variables {
            for scales in &mut variable.scales {
                scales.retain(is_array);
            }
        }
    }

    fn is_variable(&self, name: &str) -> bool {
        let is_it = |variable: &GivenVariable| variable.name == name && !self.is_apart(variable);
        self.variables.iter().any(is_it)
    }

    /// Whether a variable is called like a dimension along which it does not run: both are
    /// datasets, so it is stored under another name.
    fn is_apart(&self, variable: &GivenVariable) -> bool {
        let is_dimension = || self.all.contains_key(&variable.name);
        self.kind == NewFileKind::NetCdf4 && variable.title.is_none() && is_dimension()
    }

    /// Names of the variables that are stored under another.
    pub(super) fn apart(&self) -> BTreeSet<String> {
        let apart = self.variables.iter().filter(|of| self.is_apart(of));
        apart.map(|variable| variable.name.clone()).collect()
    }

    /// Dimensions that are no variables, and what makes the file one of NetCDF-4.
    pub(super) fn make_alone(&self, maker: &mut Maker<'_>) -> Result<()> {
        if self.kind == NewFileKind::Hdf5 {
            return Ok(());
        }
        let text = Value::from(&*self.properties).to_string();
        let element = StoredType::fixed(self.properties.len() as u64, Padding::Terminated);
        attribute(
            maker,
            ("", b"_NCProperties"),
            (element, Some(Vec::new())),
            text,
        )?;
        if self.is_strict {
            number(maker, ("", b"_nc3_strict"), &[1])?;
        }
        let alone = self.all.iter().filter(|(name, _)| !self.is_variable(name));
        let mut alone: Vec<_> = alone.collect();
        alone.sort_by_key(|(_, dimension)| dimension.id);
        for (name, dimension) in alone {
            let Ok(path) = names::stored(name) else {
                maker.lose(format!("{name}: a dimension of a name that is none"));
                continue;
            };
            let title = format!("{ALONE}{:10}", dimension.length);
            let dataset = MakeStep::Dataset(Box::new(dimension.dataset(&path)));
            maker.add(dataset, (format!("dimension {name}"), IfRefused::Lost), 256)?;
            let name_of = title.into_bytes();
            let scale = MakeStep::Scale {
                path,
                name: name_of,
            };
            maker.add(scale, (format!("dimension {name}"), IfRefused::Lost), 256)?;
            self.number(maker, name, dimension.id)?;
        }
        Ok(())
    }

    fn number(&self, maker: &mut Maker<'_>, name: &str, id: u64) -> Result<()> {
        number(maker, (name, b"_Netcdf4Dimid"), &[id])
    }

    /// Variables that are scales become such, and all others get theirs.
    pub(super) fn attach(&self, maker: &mut Maker<'_>) -> Result<()> {
        for variable in &self.variables {
            let Some(title) = &variable.title else {
                continue;
            };
            let Ok(path) = names::stored(&variable.name) else {
                continue;
            };
            let name = unescaped(title);
            let about = (
                format!("{}: a dimension scale", variable.name),
                IfRefused::Lost,
            );
            maker.add(MakeStep::Scale { path, name }, about, 256)?;
            if self.kind == NewFileKind::NetCdf4 {
                self.describe_variable(variable, maker)?;
            }
        }
        let mut any = false;
        for variable in self
            .variables
            .iter()
            .filter(|variable| variable.title.is_none())
        {
            if variable.scales.iter().all(Vec::is_empty) {
                continue;
            }
            any = true;
            let paths = |scales: &Vec<String>| {
                let paths = scales.iter().filter_map(|name| names::stored(name).ok());
                paths.collect()
            };
            let Ok(mut path) = names::stored(&variable.name) else {
                continue;
            };
            if self.is_apart(variable) {
                path = names::apart(path);
            }
            let scales = variable.scales.iter().map(paths).collect();
            let about = (
                format!("{}: its dimension scales", variable.name),
                IfRefused::Lost,
            );
            maker.add(MakeStep::Dimensions { path, scales }, about, 256)?;
        }
        if any {
            let about = ("references of dimension scales".to_owned(), IfRefused::Lost);
            maker.add(MakeStep::References, about, 0)?;
        }
        Ok(())
    }

    /// The numbers of a variable's dimensions, which a scale has no references for.
    fn describe_variable(&self, variable: &GivenVariable, maker: &mut Maker<'_>) -> Result<()> {
        let first = variable.scales.iter().map(|scales| scales.first());
        let ids = first.map(|name| Some(self.all.get(name?)?.id));
        let ids: Option<Vec<u64>> = ids.collect();
        let Some(ids) = ids else {
            return Ok(());
        };
        if let Some(id) = ids.first() {
            self.number(maker, &variable.name, *id)?;
        }
        match ids.len() {
            0 | 1 => Ok(()),
            _ => number(maker, (&variable.name, b"_Netcdf4Coordinates"), &ids),
        }
    }
}

fn described(description: &GivenDescription) -> BTreeMap<String, GivenDimension> {
    let stated = description
        .more
        .get("dimensions")
        .and_then(Value::as_object);
    let mut all: BTreeMap<String, GivenDimension> = BTreeMap::new();
    for (name, stated) in stated.into_iter().flatten() {
        let next = all.len() as u64;
        let dimension = GivenDimension {
            length: stated["length"].as_u64().unwrap_or(0),
            unlimited: stated["unlimited"] == true,
            id: stated["id"].as_u64().unwrap_or(next),
        };
        all.insert(name.clone(), dimension);
    }
    all
}

impl GivenDimension {
    /// Of floats that are never written.
    fn dataset(&self, path: &[u8]) -> MadeDataset {
        let (most, storage) = match self.unlimited {
            true => (
                UNLIMITED,
                MadeStorage::Chunked {
                    chunk: vec![ALONE_CHUNK],
                    plain_edges: false,
                },
            ),
            false => (self.length, MadeStorage::Contiguous),
        };
        MadeDataset {
            path: path.to_vec(),
            element: StoredType::called("H5T_IEEE_F32BE"),
            dims: Some(vec![self.length]),
            most: vec![most],
            storage,
            filters: Vec::new(),
            fill: MadeFill::Usual,
        }
    }
}

/// Numbers of dimensions: one is a scalar.
fn number(maker: &mut Maker<'_>, of: (&str, &[u8]), numbers: &[u64]) -> Result<()> {
    let dims = match numbers {
        [_] => Vec::new(),
        several => vec![several.len() as u64],
    };
    let value = match numbers {
        [one] => json!(one).to_string(),
        several => json!(several).to_string(),
    };
    attribute(
        maker,
        of,
        (StoredType::called("H5T_STD_I32LE"), Some(dims)),
        value,
    )
}

fn attribute(
    maker: &mut Maker<'_>,
    (of, name): (&str, &[u8]),
    (element, dims): (StoredType, Option<Vec<u64>>),
    shown: String,
) -> Result<()> {
    let Ok(path) = names::stored(of) else {
        return Ok(());
    };
    let made = MadeAttribute {
        of: path,
        name: name.to_vec(),
        element,
        dims,
        value: MadeValue::Shown(shown),
    };
    let about = format!("{of}: {}", String::from_utf8_lossy(name));
    maker.add(MakeStep::Attribute(made), (about, IfRefused::Lost), 256)
}
