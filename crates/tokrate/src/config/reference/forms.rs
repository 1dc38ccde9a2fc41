//! How values of the settings file are written, as the schema of the file tells it: times, addresses, files, names.
//!
//! Invariant: names come from where they are understood, so that none is listed that would be refused.

use crate::config::gateway::{HTTP, aliases, lanes, simulated};
use crate::config::monitor::CADENCES;
use crate::config::monitor::rows::RECEIVER_KINDS;
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use std::borrow::Cow;
use std::marker::PhantomData;
use tokrate_route::Policy;

/// A form of text: its name as a type, and its schema.
macro_rules! form {
    ($(#[$doc:meta])* $name:ident, $schema:expr) => {
        $(#[$doc])*
        pub struct $name;

        impl JsonSchema for $name {
            fn inline_schema() -> bool {
                true
            }

            fn schema_name() -> Cow<'static, str> {
                stringify!($name).into()
            }

            fn json_schema(_: &mut SchemaGenerator) -> Schema {
                $schema
            }
        }
    };
}

form!(
    /// A span of time.
    Time,
    json_schema!({
        "title": "time",
        "type": "string",
        "pattern": r"^\s*([0-9]+\.?[0-9]*|\.[0-9]+)\s*(us|µs|ms|s|m|min|h)?\s*$",
    })
);
form!(
    /// An address and a port.
    Address,
    json_schema!({ "title": "address", "type": "string", "pattern": "^.+:[0-9]+$" })
);
form!(
    /// An address and a port, or none.
    AddressOrOff,
    json_schema!({ "title": "address or `off`", "type": "string", "pattern": "^(off|.+:[0-9]+)$" })
);
form!(
    /// The path of a file.
    File,
    json_schema!({ "title": "file", "type": "string" })
);
form!(
    /// The path of a file, or none.
    FileOrOff,
    json_schema!({ "title": "file or `off`", "type": "string" })
);
form!(
    /// An amount, or none.
    Dollars,
    json_schema!({ "title": "dollars", "type": "number", "minimum": 0 })
);
form!(
    /// An amount above 0.
    Budget,
    json_schema!({ "title": "dollars above 0", "type": "number", "exclusiveMinimum": 0 })
);
form!(
    /// A percentage.
    Percentage,
    json_schema!({ "title": "percentage", "type": "number", "minimum": 0 })
);
form!(
    /// A share.
    Share,
    json_schema!({
        "title": "share, such as 0.05 or `\"5%\"`",
        "type": ["number", "string"],
        "minimum": 0,
        "maximum": 1,
        "pattern": r"^\s*[0-9.]+\s*%?\s*$",
    })
);
form!(
    /// A length or a distribution of lengths.
    Length,
    json_schema!({
        "title": "length, such as 1000 or `\"lognormal:800,1.2\"`",
        "type": ["integer", "string"],
        "minimum": 1,
        "pattern": r"^\s*([0-9]+|(normal|lognormal|uniform|empirical):.+)$",
    })
);
form!(
    /// The length of a shared prefix.
    Prefix,
    json_schema!({
        "title": "tokens, or a share such as `\"50%\"`",
        "type": ["integer", "string"],
        "minimum": 0,
        "pattern": r"^\s*[0-9.]+\s*%?\s*$",
    })
);
/// A list, or its only item.
pub struct OneOrMany<T>(PhantomData<T>);

impl<T: JsonSchema> JsonSchema for OneOrMany<T> {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        format!("OneOrMany{}", T::schema_name()).into()
    }

    fn json_schema(generator: &mut SchemaGenerator) -> Schema {
        let item = T::json_schema(generator).to_value();
        let mut schema = item.clone();
        schema["title"] = match item["type"].as_str() {
            Some("integer") => "whole number or a list of them".into(),
            Some("number") => "number or a list of them".into(),
            _ => "text or a list of texts".into(),
        };
        schema["type"] = serde_json::json!([item["type"], "array"]);
        schema["items"] = item;
        schema.try_into().expect("it is an object")
    }
}

form!(
    /// A hash.
    Sha256,
    json_schema!({ "title": "64 hexadecimal digits", "type": "string", "pattern": "^[0-9A-Fa-f]{64}$" })
);
form!(
    /// How many lanes a call asks.
    Mode,
    json_schema!({
        "title": "`off`, `hedge`, `race` or `race=N`",
        "type": "string",
        "pattern": "^(off|hedge|race|race=[0-9]+)$",
        "default": aliases::format_mode(tokrate_gateway::Mode::default()),
    })
);
form!(
    /// Which lane is the best.
    Objective,
    json_schema!({ "type": "string", "enum": Policy::NAMES, "default": Policy::NAMES[0] })
);
form!(
    /// By which rule a race is won.
    Winner,
    json_schema!({ "type": "string", "enum": aliases::WINNERS, "default": aliases::WINNERS[0] })
);
form!(
    /// What becomes of a loser.
    Loser,
    json_schema!({ "type": "string", "enum": lanes::LOSERS.map(|(name, _)| name), "default": lanes::LOSERS[0].0 })
);
form!(
    /// A version of HTTP.
    Http,
    json_schema!({ "type": "string", "enum": HTTP.map(|(name, _)| name), "default": HTTP[0].0 })
);
form!(
    /// What is spoken with an endpoint.
    Dialect,
    json_schema!({ "type": "string", "enum": tokrate_wire::Dialect::ALL.map(tokrate_wire::Dialect::name) })
);
form!(
    /// How often a workload is probed.
    Cadence,
    json_schema!({ "type": "string", "enum": CADENCES.map(|(name, _)| name) })
);
form!(
    /// A kind of receiver of alerts.
    ReceiverKind,
    json_schema!({ "type": "string", "enum": RECEIVER_KINDS })
);
form!(
    /// An engine of this process.
    LocalEngine,
    json_schema!({ "type": "string", "enum": simulated::local_names() })
);
