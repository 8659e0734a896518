"""Pictures of search trees and of complete games, as SVG, DOT, JSON, HTML and text."""
