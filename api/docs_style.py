"""How the page of the API's description looks. No font, picture or script is fetched."""

STYLE = """
:root { color-scheme: light dark; --page: #fff; --side: #f6f8f8; --ink: #16201f; --quiet: #5b6968;
  --line: #dde3e2; --soft: #f1f5f4; --accent: #0a6e62; --get: #1f6fb2; --post: #23803f;
  --put: #9a6200; --delete: #b3352d; --radius: 8px }
@media (prefers-color-scheme: dark) { :root { --page: #111716; --side: #161d1c; --ink: #e3eae9;
  --quiet: #98a8a6; --line: #2a3533; --soft: #1a2322; --accent: #58d0bf; --get: #6cb3ee;
  --post: #6fce8a; --put: #e0ad55; --delete: #ef8a82 } }
* { box-sizing: border-box }
html { scroll-padding-top: 1rem }
body { font: 16px/1.55 system-ui, sans-serif; margin: 0; display: grid; color: var(--ink);
  background: var(--page); grid-template-columns: 21rem minmax(0, 1fr) }
a { color: var(--accent); text-underline-offset: .15em }
nav { position: sticky; top: 0; height: 100vh; overflow: auto; padding: 1.25rem 1rem;
  background: var(--side); border-right: 1px solid var(--line); font-size: .82rem }
nav > a { display: block; font-weight: 650; font-size: .9rem; margin: .35rem 0;
  color: var(--ink); text-decoration: none }
nav ul { list-style: none; padding: 0; margin: 0 0 .75rem }
nav li a { display: grid; grid-template-columns: 3.6rem minmax(0, 1fr); padding: .1rem .25rem;
  color: var(--quiet); text-decoration: none; border-radius: 4px; overflow-wrap: anywhere }
nav li a:hover, nav li a:focus { background: var(--soft); color: var(--ink) }
main { padding: 2rem clamp(1rem, 4vw, 3rem) 6rem; max-width: 64rem }
h1 { margin: 0 0 .25rem; font-size: 2rem; letter-spacing: -.02em }
h1 small { color: var(--quiet); font-weight: 400; font-size: 1rem; letter-spacing: 0 }
h2 { margin: 3.5rem 0 0; font-size: 1.35rem; text-transform: capitalize; letter-spacing: -.01em }
h2 + p { margin: .15rem 0 1.25rem; color: var(--quiet) }
h4 { margin: 1rem 0 .25rem; font-size: .75rem; text-transform: uppercase; letter-spacing: .06em;
  color: var(--quiet) }
p { margin: .6rem 0 }
section { border: 1px solid var(--line); border-radius: var(--radius); margin: 0 0 1.25rem;
  padding: 0 1.1rem .9rem; overflow: hidden }
section > h3 { display: flex; gap: .75rem; align-items: baseline; flex-wrap: wrap; font-size: 1rem;
  font-weight: 600; margin: 0 -1.1rem .8rem; padding: .6rem 1.1rem; background: var(--soft);
  border-bottom: 1px solid var(--line); overflow-wrap: anywhere }
section > h3 a { margin-left: auto; color: var(--quiet); text-decoration: none; font-weight: 400;
  font-size: .8rem }
section:target { border-color: var(--accent); box-shadow: 0 0 0 1px var(--accent) }
code, pre { font: .86em/1.5 ui-monospace, SFMono-Regular, Menlo, Consolas, monospace }
p code, td code, li code { background: var(--soft); border-radius: 3px; padding: .05em .25em }
pre { background: var(--soft); border: 1px solid var(--line); padding: .75rem .9rem; overflow: auto;
  border-radius: 6px; margin: .4rem 0 .9rem; font-size: .82rem }
.scroll { overflow-x: auto }
table { border-collapse: collapse; width: 100%; font-size: .88rem }
td { vertical-align: top; padding: .35rem 1rem .35rem 0; border-top: 1px solid var(--line) }
tr:first-child td { border-top: 0 }
td:first-child { white-space: nowrap } td:first-child code { background: none; padding: 0 }
td.kind { color: var(--quiet); min-width: 7rem; max-width: 16rem; overflow-wrap: anywhere }
.needed { color: var(--delete) }
.verb { font: 650 .78rem/1.4 ui-monospace, SFMono-Regular, Menlo, monospace }
.get { color: var(--get) } .post { color: var(--post) } .delete { color: var(--delete) }
.put, .patch { color: var(--put) }
.quiet { color: var(--quiet); font-size: .88rem }
details > summary { cursor: pointer; color: var(--quiet); font-size: .88rem; padding: .2rem 0 }
@media (max-width: 56rem) { body { display: block } main { padding-top: 1rem }
  nav { position: static; height: auto; border-right: 0; border-bottom: 1px solid var(--line);
  display: flex; flex-wrap: wrap; gap: 0 1rem } nav ul { display: none }
  td, tr { display: block; padding: .1rem 0; border: 0 } tr { padding: .45rem 0;
  border-top: 1px solid var(--line) } td:first-child { white-space: normal } }
@media print { nav { display: none } body { display: block } section { break-inside: avoid } }
"""
