//! What a user sees and what files hold. Numbers are made elsewhere; here they are only laid out.

pub mod files;
pub mod progress;
pub mod results;
pub mod summary;
pub mod table;
pub mod targets;
