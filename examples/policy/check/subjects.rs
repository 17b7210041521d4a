//! Subjects to look for conflicts with. What a policy does depends on the subject's name where it is
//! compared, and on the memberships in the groups that are named, and on nothing else; so a few subjects
//! stand for all.

use std::collections::{BTreeMap, BTreeSet};

use iceberg_read_restrictions::{
    expression::Condition,
    identity::{Groups, Membership, Memberships, Subject},
    policy::EffectivePolicies,
    resolve::Resolver,
    source::Revision,
};

use super::leaves::leaves;

/// The most subjects that stand for all of one table.
const MOST: usize = 64;

/// The most groups of which every combination is tried, whether or not somebody is in it.
const MOST_COMBINED: usize = 5;

/// The subjects, in the same order as what is known about them.
pub struct Subjects {
    pub subjects: Vec<(Subject, Memberships)>,
    pub known: Vec<Known>,
}

/// What is known about a subject.
pub struct Known {
    /// In words, behind "for".
    pub description: String,
    /// Whether there is such a subject now, as far as the governance file knows.
    pub exists: bool,
}

/// The groups that a subject is in.
type Combination<'a> = BTreeSet<&'a str>;

impl Subjects {
    /// Subjects that stand for all that these policies can tell apart: somebody without a group, then one for
    /// each combination of groups that somebody is in, then the users that policies name, then combinations
    /// that nobody is in.
    pub fn of(policies: &EffectivePolicies, groups: &Groups) -> Self {
        let named_groups = Resolver::groups(policies);
        let named_users = named_users(policies);
        let members = memberships(&named_groups, groups);
        let in_groups = |user: &str| members.get(user).cloned().unwrap_or_default();

        let mut subjects = Self { subjects: Vec::new(), known: Vec::new() };
        let mut stranger = String::from("somebody else");
        while named_users.contains(&*stranger) {
            stranger.push('_');
        }
        let nobody_in_particular = match named_groups.is_empty() && named_users.is_empty() {
            true => "every subject".to_owned(),
            false => "a subject that no policy knows".to_owned(),
        };
        subjects.push(&stranger, &Combination::new(), &named_groups, nobody_in_particular, true);
        let mut seen = BTreeSet::from([Combination::new()]);
        for (user, combination) in members.iter().filter(|(user, _)| !named_users.contains(*user)) {
            if seen.insert(combination.clone()) {
                subjects.push(&stranger, combination, &named_groups, described(user, combination), true);
            }
        }
        for user in &named_users {
            subjects.push(user, &in_groups(user), &named_groups, described(user, &in_groups(user)), true);
        }
        for combination in combinations(&named_groups) {
            if seen.insert(combination.clone()) {
                let description =
                    format!("a subject in {}, which nobody is at present", listed(&combination));
                subjects.push(&stranger, &combination, &named_groups, description, false);
            }
        }
        subjects
    }

    fn push(
        &mut self,
        name: &str,
        combination: &Combination<'_>,
        asked: &[&str],
        description: String,
        exists: bool,
    ) {
        if self.subjects.len() == MOST {
            return;
        }
        let revision = Revision::new("made up");
        let answers = asked.iter().map(|group| {
            let is_member = combination.contains(group);
            ((*group).to_owned(), if is_member { Membership::Member } else { Membership::NotMember })
        });
        let memberships = Memberships::new(revision.clone(), answers);
        self.subjects.push((Subject::new(name, revision), memberships));
        self.known.push(Known { description, exists });
    }
}

fn described(user: &str, combination: &Combination<'_>) -> String {
    match combination.is_empty() {
        true => format!("`{user}`"),
        false => format!("`{user}`, who is in {}", listed(combination)),
    }
}

fn listed(combination: &Combination<'_>) -> String {
    let groups: Vec<_> = combination.iter().map(|group| format!("`{group}`")).collect();
    groups.join(" and ")
}

/// The users that exemptions and comparisons name.
fn named_users(policies: &EffectivePolicies) -> BTreeSet<&str> {
    let mut users = BTreeSet::new();
    for effective in policies.all() {
        let excepts = effective.selections.iter().filter_map(|selection| selection.except.as_ref());
        users.extend(excepts.flat_map(|except| &except.users).map(String::as_str));
        let Ok(expression) = &effective.policy.expression else { continue };
        for leaf in leaves(expression.rule()) {
            match leaf {
                Condition::UserIs { name, .. } => {
                    users.insert(&**name);
                }
                Condition::UserIn(names) => users.extend(names.iter().map(|name| &**name)),
                _ => {}
            }
        }
    }
    // A blank name is never a subject's.
    users.retain(|user| !user.trim().is_empty());
    users
}

/// Which of the groups each known user is in.
fn memberships<'a>(named: &[&'a str], groups: &'a Groups) -> BTreeMap<&'a str, Combination<'a>> {
    let mut members: BTreeMap<&str, Combination<'_>> = BTreeMap::new();
    for group in named {
        for user in groups.members(group).into_iter().flatten() {
            members.entry(user).or_default().insert(group);
        }
    }
    members
}

/// Every combination of a few groups; of many only those of one and of two.
fn combinations<'a>(groups: &[&'a str]) -> Vec<Combination<'a>> {
    if groups.len() <= MOST_COMBINED {
        return (0..1_usize << groups.len())
            .map(|set| {
                (0..groups.len()).filter(|index| set >> index & 1 == 1).map(|index| groups[index]).collect()
            })
            .collect();
    }
    let single = groups.iter().map(|group| Combination::from([*group]));
    let pairs = groups.iter().enumerate().flat_map(|(index, first)| {
        groups[index + 1..].iter().map(move |second| Combination::from([*first, *second]))
    });
    single.chain(pairs).collect()
}
