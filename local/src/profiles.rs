//! The files of agents in a folder of this machine.

use std::collections::BTreeMap;
use std::io::{Error, ErrorKind};
use std::path::Path;

use annals_core::agents::profile::AGENT_FILE;
use annals_core::settings::ConfigError;
use annals_engine::profiles::{AGENTS_FOLDER, AgentsFolder, Profiles, ProfilesSetting};

pub(crate) fn read(setting: &ProfilesSetting) -> Result<Profiles, ConfigError> {
    let mut files = BTreeMap::new();
    for id in &setting.ids {
        let AgentsFolder::Here(folder) = &setting.folder else {
            let problem = "names a place in S3, which only a deployed program reads: give a folder";
            return Err(ConfigError::new(AGENTS_FOLDER.name, problem));
        };
        let own = files_of(&Path::new(folder).join(id));
        let own = own.map_err(|(path, error)| {
            ConfigError::new(AGENTS_FOLDER.name, format!("has {path}, which cannot be read: {error}"))
        })?;
        files.insert(id.clone(), own);
    }
    setting.parse(files)
}

/// Reads the files of one agent, by their paths in its `folder`.
fn files_of(folder: &Path) -> Result<BTreeMap<String, String>, (String, Error)> {
    let mut files = BTreeMap::new();
    let mut read = |path: String| match std::fs::read_to_string(folder.join(&path)) {
        Ok(text) => {
            files.insert(path, text);
            Ok(())
        }
        // The profile says what is missing.
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err((folder.join(&path).display().to_string(), error)),
    };
    read(AGENT_FILE.to_owned())?;
    let skills = folder.join("skills");
    let listed = match std::fs::read_dir(&skills) {
        Ok(listed) => listed,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(files),
        Err(error) => return Err((skills.display().to_string(), error)),
    };
    for entry in listed {
        let entry = entry.map_err(|error| (skills.display().to_string(), error))?;
        read(format!("skills/{}/SKILL.md", entry.file_name().to_string_lossy()))?;
    }
    Ok(files)
}
