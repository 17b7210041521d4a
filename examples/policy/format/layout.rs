//! The canonical order of the members of a governance model, the same in both notations.

/// The members that an object of one kind may have, in canonical order, with the shape of what is in them.
pub struct Shape(&'static [(&'static str, &'static Shape)]);

/// The whole file.
pub static MODEL: Shape =
    Shape(&[("tags", &TAG), ("policies", &POLICY), ("assignments", &ASSIGNMENT), ("groups", &FREE)]);

/// Something whose members stay in the order of the author: groups, and the content of foreign policies.
static FREE: Shape = Shape(&[]);

static TAG: Shape = Shape(&[("name", &FREE), ("comment", &FREE), ("allowedValues", &FREE)]);

static POLICY: Shape = Shape(&[
    ("name", &FREE),
    ("comment", &FREE),
    ("policyType", &FREE),
    ("enabled", &FREE),
    ("enforce", &FREE),
    ("content", &FREE),
    ("tags", &RELATION),
]);

static RELATION: Shape = Shape(&[("tag", &FREE), ("selector", &SELECTOR), ("except", &EXCEPT)]);

static SELECTOR: Shape = Shape(&[("type", &FREE), ("value", &FREE)]);

static EXCEPT: Shape = Shape(&[("users", &FREE), ("groups", &FREE)]);

static ASSIGNMENT: Shape = Shape(&[("object", &OBJECT), ("tag", &FREE), ("values", &FREE)]);

static OBJECT: Shape =
    Shape(&[("catalog", &FREE), ("namespace", &FREE), ("table", &FREE), ("column", &FREE)]);

impl Shape {
    /// The shape of a member; an array has the shape of its elements.
    pub fn member(&self, name: &str) -> &'static Shape {
        self.0.iter().find(|(member, _)| *member == name).map_or(&FREE, |(_, shape)| shape)
    }

    /// Brings members into canonical order; those that are not listed follow in the order they have.
    pub fn sort<T>(&self, members: &mut [T], name: impl Fn(&T) -> &str) {
        members.sort_by_key(|member| {
            self.0.iter().position(|(listed, _)| *listed == name(member)).unwrap_or(self.0.len())
        });
    }
}
