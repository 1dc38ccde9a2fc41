use std::collections::HashMap;

#[derive(Debug, Clone)]
pub struct Config {
    pub name: String,
    pub retries: u32,
}

impl Default for Config {
    fn default() -> Self {
        Config { name: "main".into(), retries: 3 }
    }
}

pub struct Client {
    config: Config,
    cache: HashMap<String, String>,
}

impl Client {
    pub fn new(config: Config) -> Self {
        Client { config, cache: HashMap::new() }
    }

    pub fn get(&mut self, key: &str) -> Option<&String> {
        self.cache.get(key)
    }

    pub fn put(&mut self, key: &str, value: String) {
        self.cache.insert(key.to_string(), value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn puts() {
        let mut client = Client::new(Config::default());
        client.put("a", "b".into());
        assert_eq!(client.get("a"), Some(&"b".to_string()));
    }
}
