// SPDX-License-Identifier: MIT OR Apache-2.0
//! Names of atomic operations: libfabric's datatypes, ops and forms (`fi_atomic(3)`), and which of
//! them go together.

/// Type of an element; the numbers are libfabric's `enum fi_datatype`. `long double` is that of
/// x86-64, whatever the machine; other machines have another one, and do not offer it.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Datatype {
    Int8 = 0,
    Uint8 = 1,
    Int16 = 2,
    Uint16 = 3,
    Int32 = 4,
    Uint32 = 5,
    Int64 = 6,
    Uint64 = 7,
    Float = 8,
    Double = 9,
    FloatComplex = 10,
    DoubleComplex = 11,
    LongDouble = 12,
    LongDoubleComplex = 13,
    Int128 = 14,
    Uint128 = 15,
}

impl Datatype {
    /// All datatypes.
    pub const ALL: [Self; 16] = [
        Self::Int8,
        Self::Uint8,
        Self::Int16,
        Self::Uint16,
        Self::Int32,
        Self::Uint32,
        Self::Int64,
        Self::Uint64,
        Self::Float,
        Self::Double,
        Self::FloatComplex,
        Self::DoubleComplex,
        Self::LongDouble,
        Self::LongDoubleComplex,
        Self::Int128,
        Self::Uint128,
    ];

    /// The datatype with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|&datatype| datatype as u8 == number)
    }

    /// Bytes of one element.
    #[must_use]
    pub const fn size(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Int16 | Self::Uint16 => 2,
            Self::Int32 | Self::Uint32 | Self::Float => 4,
            Self::Int64 | Self::Uint64 | Self::Double | Self::FloatComplex => 8,
            Self::DoubleComplex | Self::LongDouble | Self::Int128 | Self::Uint128 => 16,
            Self::LongDoubleComplex => 32,
        }
    }

    const fn is_float(self) -> bool {
        matches!(self, Self::Float | Self::Double | Self::LongDouble)
    }

    const fn is_complex(self) -> bool {
        matches!(self, Self::FloatComplex | Self::DoubleComplex | Self::LongDoubleComplex)
    }

    /// Whether this machine has the type in the layout of its elements.
    const fn is_native(self) -> bool {
        let is_long = matches!(self, Self::LongDouble | Self::LongDoubleComplex);
        !is_long || cfg!(target_arch = "x86_64")
    }
}

/// Operation on an element; the numbers are libfabric's `enum fi_op`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names, and fi_atomic(3), say it")]
pub enum AtomicOp {
    Min = 0,
    Max = 1,
    Sum = 2,
    Prod = 3,
    Lor = 4,
    Land = 5,
    Bor = 6,
    Band = 7,
    Lxor = 8,
    Bxor = 9,
    Read = 10,
    Write = 11,
    Cswap = 12,
    CswapNe = 13,
    CswapLe = 14,
    CswapLt = 15,
    CswapGe = 16,
    CswapGt = 17,
    Mswap = 18,
}

impl AtomicOp {
    /// All ops, by number.
    pub const ALL: [Self; 19] = [
        Self::Min,
        Self::Max,
        Self::Sum,
        Self::Prod,
        Self::Lor,
        Self::Land,
        Self::Bor,
        Self::Band,
        Self::Lxor,
        Self::Bxor,
        Self::Read,
        Self::Write,
        Self::Cswap,
        Self::CswapNe,
        Self::CswapLe,
        Self::CswapLt,
        Self::CswapGe,
        Self::CswapGt,
        Self::Mswap,
    ];

    /// The op with this number.
    #[must_use]
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// Whether the op needs values to compare with.
    #[must_use]
    pub const fn compares(self) -> bool {
        self as u8 >= Self::Cswap as u8
    }

    /// Whether `form` of this op exists for `datatype` (`fi_atomic(3)`, "Atomic Operations").
    /// Comparing ops go with [`AtomicForm::Compare`] only, and reading is fetching. Floating-point
    /// numbers have no bitwise ops, and complex numbers no order.
    #[must_use]
    pub const fn is_valid(self, form: AtomicForm, datatype: Datatype) -> bool {
        let form_fits = match form {
            AtomicForm::Base => !self.compares() && !matches!(self, Self::Read),
            AtomicForm::Fetch => !self.compares(),
            AtomicForm::Compare => self.compares(),
        };
        let bits = matches!(self, Self::Bor | Self::Band | Self::Bxor | Self::Mswap);
        let order = matches!(
            self,
            Self::Min | Self::Max | Self::CswapLe | Self::CswapLt | Self::CswapGe | Self::CswapGt
        );
        let type_fits = !(bits && (datatype.is_float() || datatype.is_complex()))
            && !(order && datatype.is_complex());
        form_fits && type_fits && datatype.is_native()
    }
}

/// The form of an atomic operation: the values that its response brings (`fi_atomic(3)`).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AtomicForm {
    /// No value: `fi_atomic`.
    Base,
    /// The previous contents: `fi_fetch_atomic`.
    Fetch,
    /// The previous contents, from an op with values to compare with: `fi_compare_atomic`.
    Compare,
}
