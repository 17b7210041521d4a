//! The canonical layout of a governance file in TOML.
//!
//! - what stands above the first blank line stays at the top; then tags, policies, assignments, groups,
//!   each in the order of the author;
//! - `[[tags]]`, `[[policies]]` and `[[assignments]]` with a blank line before each, members in the order of
//!   the documentation, one a line;
//! - an expression of several lines in `'''`, other values on one line, an array that is too long for that
//!   with one element a line;
//! - a comment stays above, or beside, what it stands above or beside. One inside a value that is written
//!   on one line moves above that line.

use toml_edit::{Decor, DocumentMut, Item, Key, RawString, TableLike, Value as TomlValue};

use super::layout::{MODEL, Shape};

/// The longest line that an array is put on.
const WIDTH: usize = 100;

/// The text in canonical layout.
pub fn canonical(text: &str) -> Result<String, String> {
    let (heading, rest) = split_heading(text);
    let document: DocumentMut = rest.parse().map_err(|error: toml_edit::TomlError| error.to_string())?;
    let mut below = Vec::new();
    push_comments(&mut below, document.trailing());
    let mut writer = Writer::default();
    writer.comments(&comment_lines(heading));
    writer.model(read_table(document.as_table(), &MODEL));
    writer.section_break();
    writer.comments(&below);
    Ok(writer.finish())
}

/// The comments at the start of a file up to the last blank line among them: they are about the file.
fn split_heading(text: &str) -> (&str, &str) {
    let mut end = 0;
    let mut offset = 0;
    for line in text.split_inclusive('\n') {
        offset += line.len();
        match line.trim() {
            "" => end = offset,
            comment if comment.starts_with('#') => {}
            _ => return text.split_at(end),
        }
    }
    (text, "")
}

/// A value with the comments round it.
struct Node {
    above: Vec<String>,
    beside: Vec<String>,
    value: Value,
}

enum Value {
    /// TOML text.
    Scalar(String),
    Array {
        elements: Vec<Node>,
        /// Comments behind the last element.
        below: Vec<String>,
    },
    Table(Vec<Member>),
}

struct Member {
    name: String,
    node: Node,
}

impl Node {
    /// Comments on it and on anything inside.
    fn all_comments(&self) -> Vec<String> {
        let mut comments = self.above.clone();
        comments.extend(self.inner_comments());
        comments.extend(self.beside.iter().cloned());
        comments
    }

    fn inner_comments(&self) -> Vec<String> {
        match &self.value {
            Value::Scalar(_) => Vec::new(),
            Value::Array { elements, below } => {
                elements.iter().flat_map(Node::all_comments).chain(below.iter().cloned()).collect()
            }
            Value::Table(members) => members.iter().flat_map(|member| member.node.all_comments()).collect(),
        }
    }

    fn is_table(&self) -> bool {
        matches!(self.value, Value::Table(_))
    }

    /// The value on one line, without comments.
    fn inline(&self) -> String {
        match &self.value {
            Value::Scalar(text) => text.clone(),
            Value::Array { elements, .. } => {
                format!("[{}]", elements.iter().map(Node::inline).collect::<Vec<_>>().join(", "))
            }
            Value::Table(members) if members.is_empty() => "{}".to_owned(),
            Value::Table(members) => {
                let members = members.iter().map(|member| member.line(&member.node));
                format!("{{ {} }}", members.collect::<Vec<_>>().join(", "))
            }
        }
    }
}

impl Member {
    fn line(&self, node: &Node) -> String {
        format!("{} = {}", key(&self.name), node.inline())
    }
}

fn read_item(item: &Item, shape: &Shape) -> Option<Node> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(read_value(value, shape)),
        Item::Table(table) => {
            let mut node =
                Node { above: Vec::new(), beside: Vec::new(), value: Value::Table(read_table(table, shape)) };
            node.take_comments(table.decor());
            Some(node)
        }
        Item::ArrayOfTables(tables) => {
            let elements = tables.iter().filter_map(|table| read_item(&Item::Table(table.clone()), shape));
            let value = Value::Array { elements: elements.collect(), below: Vec::new() };
            Some(Node { above: Vec::new(), beside: Vec::new(), value })
        }
    }
}

fn read_table(table: &dyn TableLike, shape: &Shape) -> Vec<Member> {
    let mut members = Vec::new();
    for (name, item) in table.iter() {
        let Some(mut node) = read_item(item, shape.member(name)) else { continue };
        let mut above = table.key(name).map(key_comments).unwrap_or_default();
        above.append(&mut node.above);
        node.above = above;
        members.push(Member { name: name.to_owned(), node });
    }
    shape.sort(&mut members, |member| &member.name);
    members
}

fn read_value(value: &TomlValue, shape: &Shape) -> Node {
    let read = match value {
        TomlValue::String(string) => Value::Scalar(string_text(string.value())),
        TomlValue::Array(array) => read_array(array, shape),
        TomlValue::InlineTable(table) => Value::Table(read_table(table, shape)),
        scalar => {
            let mut bare = scalar.clone();
            bare.decor_mut().clear();
            Value::Scalar(bare.to_string())
        }
    };
    let mut node = Node { above: Vec::new(), beside: Vec::new(), value: read };
    if let TomlValue::InlineTable(table) = value {
        push_comments(&mut node.beside, table.trailing());
    }
    node.take_comments(value.decor());
    node
}

/// A comment behind the comma of an element is about that element, though it stands before the next one.
fn read_array(array: &toml_edit::Array, shape: &Shape) -> Value {
    let mut elements: Vec<Node> = Vec::new();
    let mut below = Vec::new();
    for value in array {
        let mut node = read_value(value, shape);
        let prefix = value.decor().prefix().and_then(RawString::as_str).unwrap_or_default();
        if let (Some(last), Some(comment)) = (elements.last_mut(), comment_on_first_line(prefix)) {
            node.above.remove(0);
            last.beside.push(comment);
        }
        node.above.splice(0..0, below.drain(..));
        let suffix = value.decor().suffix().and_then(RawString::as_str).unwrap_or_default();
        if comment_on_first_line(suffix).is_none() {
            // Before the comma, and on lines of their own.
            below.append(&mut node.beside);
        }
        elements.push(node);
    }
    let trailing = array.trailing().as_str().unwrap_or_default();
    let mut behind = comment_lines(trailing);
    if let (Some(last), Some(comment)) = (elements.last_mut(), comment_on_first_line(trailing)) {
        behind.remove(0);
        last.beside.push(comment);
    }
    below.append(&mut behind);
    Value::Array { elements, below }
}

impl Node {
    fn take_comments(&mut self, decor: &Decor) {
        if let Some(prefix) = decor.prefix() {
            push_comments(&mut self.above, prefix);
        }
        if let Some(suffix) = decor.suffix() {
            push_comments(&mut self.beside, suffix);
            self.beside.retain(|comment| !comment.is_empty());
        }
    }
}

fn key_comments(key: &Key) -> Vec<String> {
    let mut comments = Vec::new();
    for decor in [key.leaf_decor(), key.dotted_decor()] {
        for raw in [decor.prefix(), decor.suffix()].into_iter().flatten() {
            push_comments(&mut comments, raw);
        }
    }
    comments
}

fn push_comments(comments: &mut Vec<String>, raw: &RawString) {
    comments.extend(comment_lines(raw.as_str().unwrap_or_default()));
}

/// The comments in what stands between two tokens, with an empty line for each blank one below a comment.
fn comment_lines(between: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    // What follows the last line break is the indentation of the next token.
    let complete = between.rfind('\n').map_or(between, |end| &between[..end]);
    for line in complete.split('\n').map(str::trim) {
        if !line.is_empty() || lines.last().is_some_and(|last| !last.is_empty()) {
            lines.push(line.to_owned());
        }
    }
    lines
}

fn comment_on_first_line(between: &str) -> Option<String> {
    let line = between.split('\n').next()?.trim();
    (!line.is_empty()).then(|| line.to_owned())
}

/// A string in the notation that is the easiest to read and says exactly the same.
fn string_text(string: &str) -> String {
    let raw_lines = |c: char| c == '\n' || c == '\t' || !c.is_control();
    let is_multi_line = string.contains('\n');
    let fits_triple = string.chars().all(raw_lines) && !string.contains("'''") && !string.ends_with('\'');
    let one_line = !string.contains(char::is_control);
    match () {
        () if one_line && !string.contains(['"', '\\']) => format!("\"{string}\""),
        () if one_line && !string.contains('\'') => format!("'{string}'"),
        () if fits_triple && is_multi_line => format!("'''\n{string}'''"),
        () if fits_triple && one_line => format!("'''{string}'''"),
        () => TomlValue::from(string).to_string(),
    }
}

fn key(name: &str) -> String {
    Key::new(name).display_repr().into_owned()
}

#[derive(Default)]
struct Writer {
    text: String,
}

impl Writer {
    /// Root members that are not written as tables of their own must come before all that are.
    fn model(&mut self, members: Vec<Member>) {
        let (sections, plain): (Vec<_>, Vec<_>) =
            members.into_iter().partition(|member| match &member.node.value {
                Value::Table(_) => true,
                Value::Array { elements, below } => {
                    !elements.is_empty() && below.is_empty() && elements.iter().all(Node::is_table)
                }
                Value::Scalar(_) => false,
            });
        if !plain.is_empty() {
            self.section_break();
        }
        for member in &plain {
            self.member("", member);
        }
        for Member { name, node } in sections {
            match node.value {
                Value::Table(members) => {
                    self.table(&format!("[{}]", key(&name)), &node.above, &node.beside, &members);
                }
                Value::Array { elements, .. } => self.tables(&name, node.above, node.beside, elements),
                Value::Scalar(_) => {}
            }
        }
    }

    fn tables(&mut self, name: &str, above: Vec<String>, beside: Vec<String>, elements: Vec<Node>) {
        let mut first: Vec<String> = above.into_iter().chain(beside).collect();
        for element in elements {
            let Value::Table(members) = element.value else { continue };
            first.extend(element.above);
            self.table(&format!("[[{}]]", key(name)), &first, &element.beside, &members);
            first.clear();
        }
    }

    fn table(&mut self, header: &str, above: &[String], beside: &[String], members: &[Member]) {
        self.section_break();
        self.comments(above);
        self.line(header, beside);
        for member in members {
            self.member("", member);
        }
    }

    /// The members of `content` are written with dots, everything else on the line of its name.
    fn member(&mut self, prefix: &str, member: &Member) {
        let Member { name, node } = member;
        let name = format!("{prefix}{}", key(name));
        match &node.value {
            Value::Table(members) if name == "content" && !members.is_empty() => {
                self.comments(&node.above);
                self.comments(&node.beside);
                for member in members {
                    self.member("content.", member);
                }
            }
            Value::Array { elements, below } => self.array(&name, node, elements, below),
            Value::Table(_) | Value::Scalar(_) => {
                self.comments(&node.above);
                self.comments(&node.inner_comments());
                self.line(&format!("{name} = {}", node.inline()), &node.beside);
            }
        }
    }

    fn array(&mut self, name: &str, node: &Node, elements: &[Node], below: &[String]) {
        self.comments(&node.above);
        let line = format!("{name} = {}", node.inline());
        if node.inner_comments().is_empty() && (elements.is_empty() || line.chars().count() <= WIDTH) {
            return self.line(&line, &node.beside);
        }
        self.line(&format!("{name} = ["), &[]);
        for element in elements {
            self.indented(element.above.iter().chain(&element.inner_comments()));
            self.line(&format!("    {},", element.inline()), &element.beside);
        }
        self.indented(below.iter());
        self.line("]", &node.beside);
    }

    fn indented<'a>(&mut self, comments: impl Iterator<Item = &'a String>) {
        for comment in comments.filter(|comment| !comment.is_empty()) {
            self.line(&format!("    {comment}"), &[]);
        }
    }

    fn comments(&mut self, comments: &[String]) {
        for comment in comments {
            self.line(comment, &[]);
        }
    }

    fn line(&mut self, line: &str, beside: &[String]) {
        self.text.push_str(line);
        for comment in beside {
            self.text.push(' ');
            self.text.push_str(comment);
        }
        self.text.push('\n');
    }

    /// One blank line, unless there is one or the text has not begun.
    fn section_break(&mut self) {
        if !self.text.is_empty() && !self.text.ends_with("\n\n") {
            self.text.push('\n');
        }
    }

    fn finish(mut self) -> String {
        self.text.truncate(self.text.trim_end().len());
        if !self.text.is_empty() {
            self.text.push('\n');
        }
        self.text
    }
}
