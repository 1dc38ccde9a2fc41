//! SVG and HTML pieces of a report, each with its table twin.
