//! The constants document.
