"""Pictures of search trees and of complete games, as SVG and DOT."""
