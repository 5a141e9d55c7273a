//! Structures: matrices of which one triangle is stored.
//!
//! Specification, section 3.8. Used by `descriptor` (names), `lengths` and `order` (which
//! triangle).

const NAMES: [&str; 6] = [
    "symmetric_lower",
    "symmetric_upper",
    "hermitian_lower",
    "hermitian_upper",
    "skew_symmetric_lower",
    "skew_symmetric_upper",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Structure(&'static str);

impl Structure {
    pub(super) fn parse(name: &str) -> Option<Structure> {
        NAMES
            .iter()
            .find(|known| **known == name)
            .map(|known| Structure(known))
    }

    pub(super) fn name(self) -> &'static str {
        self.0
    }

    /// Whether the values must be complex.
    pub(super) fn needs_complex(self) -> bool {
        self.0.starts_with("hermitian")
    }

    /// The triangle of the stored matrix, whose first dimension is the columns if it is
    /// `transposed`.
    pub(super) fn triangle(self, transposed: bool) -> Triangle {
        let lower = self.0.ends_with("lower");
        Triangle {
            // row >= column is outer >= inner, or the other way round when columns are outside.
            outer_is_greater: lower != transposed,
            name: if lower { "lower" } else { "upper" },
        }
    }
}

/// The triangle in which all entries lie, by the stored order of the dimensions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Triangle {
    outer_is_greater: bool,
    /// `lower` or `upper`, of the matrix as it is meant.
    pub(super) name: &'static str,
}

impl Triangle {
    /// Whether an entry lies in it, the diagonal included.
    pub(super) fn holds(self, outer: u64, inner: u64) -> bool {
        if self.outer_is_greater {
            inner <= outer
        } else {
            inner >= outer
        }
    }

    /// The one of two inner indices, in order, that is nearer to the other triangle: if it lies in
    /// this one, everything between does.
    pub(super) fn outermost(self, first: u64, last: u64) -> u64 {
        if self.outer_is_greater { last } else { first }
    }
}
