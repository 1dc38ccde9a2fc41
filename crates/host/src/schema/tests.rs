//! Tests of drawn values: keyword by keyword, and what is refused.

use super::value_of;
use serde_json::{Value, json};

/// Draws a schema's value many times and holds each against a rule.
fn all(schema: &Value, holds: impl Fn(&Value) -> bool) {
    for seed in 0..200 {
        let value = value_of(schema, seed).unwrap_or_else(|error| panic!("{schema}: {error}"));
        assert!(holds(&value), "{schema}: {value}");
    }
}

#[test]
fn numbers_lie_between_their_bounds_and_are_multiples() {
    all(&json!({"type": "integer", "minimum": -3, "maximum": 3}), |value| {
        value.as_i64().is_some_and(|n| (-3..=3).contains(&n))
    });
    all(&json!({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 2}), |value| value == &json!(1));
    all(&json!({"type": "integer", "minimum": 5, "multipleOf": 10}), |value| {
        value.as_i64().is_some_and(|n| n >= 10 && n % 10 == 0)
    });
    all(&json!({"type": "number", "minimum": 0.5, "maximum": 0.6}), |value| {
        value.as_f64().is_some_and(|n| (0.5..=0.6).contains(&n))
    });
    all(&json!({"minimum": 2, "maximum": 3}), |value| value.as_f64().is_some_and(|n| (2.0..=3.0).contains(&n)));
    assert!(value_of(&json!({"type": "integer", "minimum": 3, "maximum": 2}), 1).is_err());
    assert!(value_of(&json!({"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}), 1).is_err());
}

#[test]
fn texts_keep_their_lengths_formats_and_patterns() {
    let length = |value: &Value| value.as_str().map_or(0, |text| text.chars().count());
    all(&json!({"type": "string", "minLength": 40}), |value| length(value) >= 40);
    all(&json!({"type": "string", "maxLength": 2}), |value| length(value) <= 2);
    all(&json!({"type": "string", "format": "uuid"}), |value| length(value) == 36);
    all(&json!({"type": "string", "format": "date"}), |value| length(value) == 10);
    all(&json!({"type": "string", "pattern": "^[A-F]{3}$"}), |value| length(value) == 3);
}

#[test]
fn choices_references_and_merged_parts_are_followed() {
    all(&json!({"enum": [1, "a", null]}), |value| [json!(1), json!("a"), json!(null)].contains(value));
    all(&json!({"const": {"a": 1}}), |value| value == &json!({"a": 1}));
    all(&json!({"anyOf": [{"type": "null"}, {"const": 4}]}), |value| value.is_null() || value == &json!(4));
    all(&json!({"$ref": "#/$defs/n", "$defs": {"n": {"type": "boolean"}}}), Value::is_boolean);
    let parts = json!({"allOf": [{"$ref": "#/definitions/a"}, {"properties": {"b": {"const": 2}}, "required": ["b"]}],
        "definitions": {"a": {"type": "object", "properties": {"a": {"const": 1}}, "required": ["a"]}}});
    all(&parts, |value| value == &json!({"a": 1, "b": 2}));
    assert!(value_of(&json!({"$ref": "#/$defs/missing"}), 1).is_err());
}

#[test]
fn lists_have_as_many_items_as_is_asked_and_no_two_alike_where_that_is_asked() {
    let items = |value: &Value| value.as_array().map_or(0, Vec::len);
    all(&json!({"type": "array", "items": {"type": "integer"}, "minItems": 4, "maxItems": 5}), |value| {
        (4..=5).contains(&items(value))
    });
    all(
        &json!({"type": "array", "items": {"enum": [1, 2, 3]}, "minItems": 3, "maxItems": 3, "uniqueItems": true}),
        |value| {
            let mut all: Vec<i64> = value.as_array().into_iter().flatten().filter_map(Value::as_i64).collect();
            all.sort_unstable();
            all == [1, 2, 3]
        },
    );
    assert!(value_of(&json!({"type": "array", "items": {"const": 1}, "minItems": 2, "uniqueItems": true}), 1).is_err());
}

#[test]
fn a_schema_that_names_itself_ends_and_one_that_never_could_is_refused() {
    let tree = json!({"type": "object", "properties": {"name": {"type": "string"}, "children": {"type": "array", "items": {"$ref": "#"}}},
        "required": ["name", "children"]});
    all(&tree, |value| value["children"].is_array());
    let endless = json!({"type": "object", "properties": {"next": {"$ref": "#"}}, "required": ["next"]});
    assert!(value_of(&endless, 1).expect_err("it has no end").contains("deeper"));
}

#[test]
fn what_stands_beside_a_choice_or_a_reference_counts_too() {
    let beside = json!({"anyOf": [{"properties": {"a": {"const": 1}}, "required": ["a"]}], "type": "object", "properties": {"k": {"const": 2}}, "required": ["k"]});
    all(&beside, |value| value == &json!({"a": 1, "k": 2}));
    all(&json!({"$ref": "#/$defs/n", "minimum": 500, "$defs": {"n": {"type": "integer"}}}), |value| {
        value.as_i64() >= Some(500)
    });
    all(&json!({"type": "object", "properties": {"a": {}, "b": {}, "c": {}}, "maxProperties": 1}), |value| {
        value.as_object().is_some_and(|it| it.len() <= 1)
    });
    all(&json!({"type": "array", "prefixItems": [{"const": 1}], "items": false}), |value| value == &json!([1]));
    all(&json!({"type": "string", "pattern": "^[ab]*$", "minLength": 2, "maxLength": 3}), |value| {
        (2..=3).contains(&value.as_str().map_or(0, str::len))
    });
}

#[test]
fn a_schema_that_asks_for_too_much_is_refused_at_once() {
    let mut nested = json!({"type": "integer"});
    for _ in 0..4 {
        nested = json!({"type": "array", "minItems": 1_000, "items": nested});
    }
    let mut choices = json!({"d9": false});
    for level in 0..9 {
        choices[format!("d{level}")] = json!({"anyOf": vec![json!({"$ref": format!("#/$defs/d{}", level + 1)}); 200]});
    }
    for schema in [
        json!({"type": "object", "minProperties": 1_000_000_000}),
        json!({"type": "object", "minProperties": 9_999, "additionalProperties": {"type": "string", "minLength": 1_000}}),
        json!({"type": "string", "minLength": 1_000_000_000}),
        json!({"type": "string", "pattern": "^(([a&&b]){4000000}){4000000}$"}),
        json!({"type": "string", "pattern": "^a{900000}$"}),
        json!({"type": "string", "minLength": 3, "maxLength": 2}),
        json!({"type": "array", "minItems": -1}),
        json!({"$ref": "#/$defs/d0", "$defs": choices}),
        nested,
    ] {
        assert!(value_of(&schema, 1).is_err(), "{}", schema.to_string().chars().take(120).collect::<String>());
    }
}

#[test]
fn a_keyword_that_no_value_is_made_for_is_named() {
    for keyword in super::UNSUPPORTED {
        let error = value_of(&json!({"type": "object", keyword: {}}), 1).expect_err("it is not understood");
        assert!(error.contains(keyword), "{error}");
    }
}

/// The checker of `tokrate bench` knows nothing of how values are drawn.
#[test]
fn what_is_drawn_is_valid_by_a_checker_of_its_own() {
    for schema in [
        json!({"type": "object", "required": ["a", "b"], "additionalProperties": false, "properties": {
            "a": {"type": "integer", "minimum": 3, "exclusiveMaximum": 9}, "b": {"type": ["string", "null"], "maxLength": 7},
            "c": {"type": "array", "minItems": 2, "maxItems": 4, "items": {"enum": ["x", 1, true]}}}}),
        json!({"anyOf": [{"const": 4}, {"type": "string", "minLength": 30}]}),
        json!({"$defs": {"node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/node"}, "n": {"type": "number", "multipleOf": 0.01}}, "required": ["n"]}}, "$ref": "#/$defs/node"}),
        json!({"allOf": [{"type": "object", "properties": {"a": {"type": "boolean"}}, "required": ["a"]}, {"minProperties": 2}]}),
    ] {
        let checker = tokrate_wire::JsonSchema::new(schema.clone()).expect("all of it is checked");
        all(&schema, |value| checker.check(value).is_ok());
    }
}
