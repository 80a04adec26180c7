//! Numbers with unit and source.

/// What a unit measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// A number of things.
    Count,
    /// Memory; the base unit is the byte.
    Bytes,
    /// Bytes per second.
    Bandwidth,
    /// Operations per second; a multiply and an add are two.
    Rate,
    /// Hertz.
    Frequency,
    /// Seconds.
    Time,
    /// Clock cycles.
    Cycles,
    /// A part of something.
    Ratio,
}

macro_rules! units {
    ($($variant:ident $name:literal $dimension:ident $factor:expr;)*) => {
        /// A unit.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub enum Unit { $(#[doc = concat!("`", $name, "`")] $variant,)* }

        impl Unit {
            /// The name in text.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The unit of this name, if there is one.
            pub fn from_name(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }

            /// What it measures.
            pub const fn dimension(self) -> Dimension {
                match self { $(Self::$variant => Dimension::$dimension,)* }
            }

            /// How many base units (bytes, seconds, ...) it is.
            pub const fn factor(self) -> f64 {
                match self { $(Self::$variant => $factor,)* }
            }
        }
    };
}

units! {
    Count "count" Count 1.0;
    Byte "B" Bytes 1.0;
    Kibibyte "KiB" Bytes 1024.0;
    Mebibyte "MiB" Bytes 1024.0 * 1024.0;
    Gibibyte "GiB" Bytes 1024.0 * 1024.0 * 1024.0;
    Megabyte "MB" Bytes 1e6;
    Gigabyte "GB" Bytes 1e9;
    GigabytePerSecond "GB/s" Bandwidth 1e9;
    Teraflops "TFLOP/s" Rate 1e12;
    Teraops "TOP/s" Rate 1e12;
    Megahertz "MHz" Frequency 1e6;
    Gigahertz "GHz" Frequency 1e9;
    Nanosecond "ns" Time 1e-9;
    Cycle "cycles" Cycles 1.0;
    Ratio "ratio" Ratio 1.0;
}

/// A number of a machine: how much, of what unit, who says so.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// In the unit; `None` if it is not known.
    pub value: Option<f64>,
    /// The unit, as the source states it.
    pub unit: Unit,
    /// Who says so.
    pub source: String,
    /// Whether sources disagree, or the number was inferred.
    pub uncertain: bool,
}

impl Quantity {
    /// The value in base units: bytes, bytes per second, operations per second,
    /// hertz, seconds, cycles or a count.
    pub fn base_value(&self) -> Option<f64> {
        Some(self.value? * self.unit.factor())
    }
}

impl std::fmt::Display for Quantity {
    /// `~1459 GB/s`: `~` if it is uncertain, `?` for a number that is missing.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.uncertain { "~" } else { "" };
        match self.value {
            Some(value) => write!(f, "{mark}{value} {}", self.unit.name()),
            None => write!(f, "? {}", self.unit.name()),
        }
    }
}
