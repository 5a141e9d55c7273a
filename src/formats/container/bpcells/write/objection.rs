//! Why a container cannot be stored as it would be. Used by `merged` and `consistency`.

use crate::container::writable::Consistency;
use crate::error::{Error, Result};

#[derive(Debug)]
pub(super) enum Objection {
    /// Arrays do not agree, or one is not done.
    NotYet(String),
    /// The format has no way to hold it.
    Unfit(String),
    /// It could not be found out.
    Failed(Error),
}

impl From<Error> for Objection {
    fn from(error: Error) -> Objection {
        Objection::Failed(error)
    }
}

impl Objection {
    /// What it means for a commit.
    pub(super) fn consistency(judged: std::result::Result<(), Objection>) -> Result<Consistency> {
        match judged {
            Ok(()) => Ok(Consistency::Now),
            Err(Objection::NotYet(why)) => Ok(Consistency::NotYet(why)),
            Err(Objection::Unfit(why)) => Ok(Consistency::Unfit(why)),
            Err(Objection::Failed(error)) => Err(error),
        }
    }

    /// As what cannot be done at all.
    pub(super) fn error(self) -> Error {
        match self {
            Objection::NotYet(why) | Objection::Unfit(why) => Error::Invalid(why),
            Objection::Failed(error) => error,
        }
    }
}
