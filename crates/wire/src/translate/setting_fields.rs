//! The fields in which a dialect writes the settings of a translated request.
//!
//! Invariant: of two settings that want the same field the first has it.

use crate::remainder::Members;
use std::collections::BTreeMap;

type Fields = Vec<(&'static str, String)>;

/// Fields of the target, beside those that [`tokrate_core::ChatRequest`] has a place for.
#[derive(Debug)]
pub(crate) struct SettingFields {
    /// Whether the request sets how hard the model is to reason, which includes that reasoning is to be shown.
    pub(crate) has_effort: bool,
    top: Fields,
    /// Fields that are objects of which several settings write a part.
    objects: BTreeMap<&'static str, Fields>,
    /// Objects within those.
    nested: BTreeMap<&'static str, Fields>,
}

impl SettingFields {
    pub(super) fn new(has_effort: bool) -> SettingFields {
        SettingFields { has_effort, top: Vec::new(), objects: BTreeMap::new(), nested: BTreeMap::new() }
    }

    /// Sets a field at the top of the body.
    pub(crate) fn set(&mut self, name: &'static str, json: String) {
        insert(&mut self.top, name, json);
    }

    /// Sets a field of an object at the top of the body.
    pub(crate) fn set_in(&mut self, object: &'static str, name: &'static str, json: String) {
        insert(self.objects.entry(object).or_default(), name, json);
    }

    /// Sets a field of `inner`, an object within an object at the top of the body.
    pub(crate) fn set_nested(&mut self, object: &'static str, inner: &'static str, name: &'static str, json: String) {
        let nested = self.nested.entry(inner).or_default();
        insert(nested, name, json);
        let written = written(nested);
        let fields = self.objects.entry(object).or_default();
        fields.retain(|(name, _)| *name != inner);
        fields.push((inner, written));
    }

    /// All fields at the top of the body.
    pub(super) fn into_fields(self) -> Vec<(String, String)> {
        let objects = self.objects.into_iter().map(|(object, fields)| (object, written(&fields)));
        self.top.into_iter().chain(objects).map(|(name, json)| (name.to_owned(), json)).collect()
    }
}

fn insert(fields: &mut Fields, name: &'static str, json: String) {
    if !fields.iter().any(|(other, _)| *other == name) {
        fields.push((name, json));
    }
}

fn written(fields: &Fields) -> String {
    let mut members = Members::new();
    fields.iter().for_each(|(name, json)| members.json(name, json));
    members.end()
}
