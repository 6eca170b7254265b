//! What a profile has of those that it extends.

use std::path::{Path, PathBuf};

use super::document::{Base, Document};
use super::{BUILT_IN, Conflict, Problem, Profile, ProfileError, Wish, names, text_of_file};

/// A profile by name or path. `beside` is the directory that paths of `extends` start from, `chain` the profiles that
/// extend this one, the first of them first.
pub(super) fn find(name: &str, beside: Option<&Path>, chain: &mut Vec<String>) -> Result<Profile, ProfileError> {
    chain.push(key(name, beside));
    let found = if let Some((name, text)) = BUILT_IN.iter().find(|(known, _)| *known == name) {
        resolve(name, text, None, chain)
    } else if Path::new(name).extension().is_none_or(|extension| extension != "toml") {
        Err(ProfileError::Unknown { name: name.to_owned(), known: names().collect() })
    } else {
        let path = path_of(name, beside);
        text_of_file(&path).and_then(|text| resolve(&path.to_string_lossy(), &text, path.parent(), chain))
    };
    chain.pop();
    found
}

fn path_of(name: &str, beside: Option<&Path>) -> PathBuf {
    beside.map_or_else(|| PathBuf::from(name), |directory| directory.join(name))
}

/// What tells a profile from others: one file has one key, whatever path leads to it.
fn key(name: &str, beside: Option<&Path>) -> String {
    if names().any(|known| known == name) {
        return name.to_owned();
    }
    let path = path_of(name, beside);
    path.canonicalize().unwrap_or(path).to_string_lossy().into_owned()
}

pub(super) fn resolve(
    file: &str,
    text: &str,
    directory: Option<&Path>,
    chain: &mut Vec<String>,
) -> Result<Profile, ProfileError> {
    let document = Document::parse(file, text)?;
    let at = |line, problem| ProfileError::Text { file: file.to_owned(), line, problem };
    let mut profile = Profile {
        name: file.to_owned(),
        purpose: document.purpose.clone(),
        extends: document.extends.iter().map(|base| base.name.clone()).collect(),
        wishes: Vec::new(),
        left_out: Vec::new(),
    };
    let mut bases = Vec::new();
    for base in &document.extends {
        bases.push((base, load(base, directory, chain, &at)?));
    }
    let is_inherited =
        |id| bases.iter().any(|(_, inherited)| inherited.wishes.iter().any(|wish| wish.setting.id == id));
    if let Some(without) = document.without.iter().find(|without| !is_inherited(without.id)) {
        let base = match &profile.extends[..] {
            [] => "a profile that this one extends".to_owned(),
            names => names.join(" or "),
        };
        return Err(at(without.line, Problem::NotInherited { id: without.id, base }));
    }
    let mut wishes: Vec<(&Base, Wish)> = Vec::new();
    for (base, inherited) in bases {
        for wish in inherited.wishes.into_iter().filter(|wish| !document.replaces(wish.setting.id)) {
            take_in(&mut wishes, base, wish).map_err(|problem| at(base.line, problem))?;
        }
        for advice in inherited.left_out.into_iter().filter(|advice| !document.speaks_of(advice.setting.id)) {
            let is_it = |other: &super::LeftOut| other.setting == advice.setting && other.printed == advice.printed;
            if !profile.left_out.iter().any(is_it) {
                profile.left_out.push(advice);
            }
        }
    }
    profile.wishes = wishes.into_iter().map(|(_, wish)| wish).chain(document.wishes).collect();
    profile.left_out.extend(document.left_out);
    Ok(profile)
}

fn load(
    base: &Base,
    directory: Option<&Path>,
    chain: &mut Vec<String>,
    at: &impl Fn(usize, Problem) -> ProfileError,
) -> Result<Profile, ProfileError> {
    let name = base.name.clone();
    let key = key(&name, directory);
    if let Some(first) = chain.iter().position(|earlier| *earlier == key) {
        let circle = chain[first..].iter().chain([&key]).cloned().collect::<Vec<_>>().join(" -> ");
        return Err(at(base.line, Problem::Circle { name, circle }));
    }
    find(&base.name, directory, chain).map_err(|error| match error {
        circle @ ProfileError::Text { problem: Problem::Circle { .. }, .. } => circle,
        source => at(base.line, Problem::Extends { name, source: Box::new(source) }),
    })
}

/// Adds what a base wants to what earlier ones want. The same wish, as of two profiles that both extend a third one,
/// counts once; of two that differ in their conditions only, the one without conditions counts.
fn take_in<'a>(wishes: &mut Vec<(&'a Base, Wish)>, base: &'a Base, wish: Wish) -> Result<(), Problem> {
    let is_other = |other: &&mut (&Base, Wish)| other.0.name != base.name && other.1.setting == wish.setting;
    for (other_base, other) in wishes.iter_mut().filter(is_other) {
        let is_same = other.wanted == wish.wanted && other.on == wish.on && other.alternative() == wish.alternative();
        if is_same && (other.when == wish.when || other.when.is_empty()) {
            return Ok(());
        }
        if is_same && wish.when.is_empty() {
            *other = wish;
            return Ok(());
        }
        if !is_same && (other.when == wish.when || other.when.is_empty() || wish.when.is_empty()) {
            return Err(Problem::Conflict(Box::new(Conflict {
                id: wish.setting.id,
                one: other_base.name.clone(),
                one_wants: other.wanted.to_string(),
                other: base.name.clone(),
                other_wants: wish.wanted.to_string(),
            })));
        }
    }
    wishes.push((base, wish));
    Ok(())
}
