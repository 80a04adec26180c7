//! Recognises files that are not programs for Tegula by their first bytes, so that errors can name
//! the format and say how to get a program from it.

/// The name of a format, and what to do instead; [`None`] if the format is unknown.
pub(crate) fn recognise(bytes: &[u8]) -> Option<(&'static str, &'static str)> {
    let found = FORMATS.iter().find(|format| (format.is)(bytes))?;
    Some((found.name, found.help))
}

struct Format {
    name: &'static str,
    is: fn(&[u8]) -> bool,
    help: &'static str,
}

const EXPORT_PYTORCH: &str =
    "export the model with `torch.onnx.export`, or as StableHLO with torch_xla";
const EXPORT_TENSORFLOW: &str =
    "export the model with `tf2onnx`, or as StableHLO with `jax2tf` or `tf.mlir`";
const EXPORT_WEIGHTS: &str = "it holds weights and no program: export the model that uses them";

/// Whether a ZIP archive contains a file of this name. Archives list names near their end; the
/// names are near the beginning as well if the archive has only a few kilobytes.
fn zip_with(bytes: &[u8], name: &[u8]) -> bool {
    const LOOKED_AT: usize = 1 << 16;
    let contains = |part: &[u8]| part.windows(name.len()).any(|window| window == name);
    let last = bytes.len().saturating_sub(LOOKED_AT);
    bytes.starts_with(b"PK\x03\x04")
        && (contains(&bytes[..bytes.len().min(LOOKED_AT)]) || contains(&bytes[last..]))
}

/// The known formats. The first that matches is used.
const FORMATS: &[Format] = &[
    Format {
        name: "a checkpoint or an exported program of PyTorch",
        is: |bytes| zip_with(bytes, b"data.pkl") || zip_with(bytes, b"/archive_format"),
        help: EXPORT_PYTORCH,
    },
    Format {
        name: "a Keras model",
        is: |bytes| zip_with(bytes, b"config.json") && zip_with(bytes, b"metadata.json"),
        help: EXPORT_TENSORFLOW,
    },
    Format {
        name: "a NumPy archive (.npz)",
        is: |bytes| zip_with(bytes, b".npy"),
        help: "it holds inputs: give it with `--inputs`",
    },
    Format {
        name: "a zip archive",
        is: |bytes| bytes.starts_with(b"PK\x03\x04"),
        help: "unpack it",
    },
    Format {
        name: "a NumPy array (.npy)",
        is: |bytes| bytes.starts_with(b"\x93NUMPY"),
        help: "save inputs with `numpy.savez` and give them with `--inputs`",
    },
    Format {
        name: "a gzip file",
        is: |bytes| bytes.starts_with(b"\x1f\x8b"),
        help: "unpack it: `gzip -dc FILE | tegula run -`",
    },
    Format {
        name: "a Python pickle",
        is: |bytes| matches!(bytes, [0x80, 2..=5, ..]),
        help: EXPORT_PYTORCH,
    },
    Format {
        name: "a GGUF file",
        is: |bytes| bytes.starts_with(b"GGUF"),
        help: EXPORT_WEIGHTS,
    },
    Format {
        name: "a safetensors file",
        is: |bytes| bytes.get(8..10) == Some(b"{\"") && bytes.get(4..8) == Some(&[0; 4]),
        help: EXPORT_WEIGHTS,
    },
    Format {
        name: "a TensorFlow Lite model",
        is: |bytes| bytes.get(4..8) == Some(b"TFL3"),
        help: EXPORT_TENSORFLOW,
    },
    Format {
        name: "an HDF5 file",
        is: |bytes| bytes.starts_with(b"\x89HDF\r\n\x1a\n"),
        help: EXPORT_TENSORFLOW,
    },
    Format {
        name: "a compiled program",
        is: |bytes| bytes.starts_with(b"\x7fELF") || bytes.starts_with(b"BC\xc0\xde"),
        help: "give the program that it was compiled from",
    },
];

#[cfg(test)]
mod tests {
    use super::recognise;

    #[test]
    fn formats_are_told_apart() {
        let name = |bytes: &[u8]| recognise(bytes).map(|(name, _)| name);
        let cases: [(&[u8], Option<&str>); 9] = [
            (b"GGUF\x03\0\0\0", Some("a GGUF file")),
            (
                b"PK\x03\x04....model/data.pkl",
                Some("a checkpoint or an exported program of PyTorch"),
            ),
            (b"PK\x03\x04....in0.npy", Some("a NumPy archive (.npz)")),
            (b"PK\x03\x04....readme", Some("a zip archive")),
            (b"\x10\0\0\0\0\0\0\0{\"a\":1}", Some("a safetensors file")),
            (b"\x1c\0\0\0TFL3", Some("a TensorFlow Lite model")),
            (b"\x80\x04K\x01.", Some("a Python pickle")),
            (b"HloModule m", None),
            (b"", None),
        ];
        for (bytes, expected) in cases {
            assert_eq!(name(bytes), expected, "{bytes:?}");
        }
    }
}
