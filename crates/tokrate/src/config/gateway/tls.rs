//! `[gateway.tls]`: the files of certificate and key are read here.

use super::EffectiveConfig;
use super::rows::TlsRow;
use anyhow::{Context, Result};
use std::path::Path;
use tokrate_gateway::TlsConfig;
use tokrate_targets::reading::{MAX_SETTINGS_BYTES, bytes_of};

/// Certificate and key, if clients are to be served over TLS.
pub(super) fn tls(row: Option<&TlsRow>, effective: &mut EffectiveConfig) -> Result<Option<TlsConfig>> {
    let Some(TlsRow { certificate, key, admin }) = row else { return Ok(None) };
    let chain = read(certificate).context("read gateway.tls.certificate")?;
    let config = TlsConfig::new(chain, read(key).context("read gateway.tls.key")?, *admin)
        .with_context(|| format!("use {} with {}", certificate.display(), key.display()))?;
    effective.note("tls.certificate", certificate.display(), effective.file_origin());
    effective.note("tls.key", key.display(), effective.file_origin());
    effective.note("tls.admin", admin, effective.file_origin());
    Ok(Some(config))
}

fn read(path: &Path) -> Result<Vec<u8>> {
    bytes_of(path, MAX_SETTINGS_BYTES).with_context(|| path.display().to_string())
}
