//! Numbers with units and sources.

/// The physical dimension of a unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Dimension {
    /// A number of items.
    Count,
    /// Memory; the base unit is the byte.
    Bytes,
    /// Bytes per second.
    Bandwidth,
    /// Operations per second; a multiply-add counts as two.
    Rate,
    /// Hertz.
    Frequency,
    /// Seconds.
    Time,
    /// Clock cycles.
    Cycles,
    /// A fraction.
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

            /// The physical dimension.
            pub const fn dimension(self) -> Dimension {
                match self { $(Self::$variant => Dimension::$dimension,)* }
            }

            /// The size in base units (bytes, seconds, ...).
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

/// A number about a machine, with its unit and source.
#[derive(Clone, Debug, PartialEq)]
pub struct Quantity {
    /// The number of units; `None` if it is not known.
    pub value: Option<f64>,
    /// The unit, as the source states it.
    pub unit: Unit,
    /// The source of the number.
    pub source: String,
    /// Whether the number is uncertain, because sources disagree or because it was inferred.
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
    /// Prints `~1459 GB/s`, with `~` if the number is uncertain, and `?` for an unknown number.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mark = if self.uncertain { "~" } else { "" };
        match self.value {
            Some(value) => write!(f, "{mark}{value} {}", self.unit.name()),
            None => write!(f, "? {}", self.unit.name()),
        }
    }
}
