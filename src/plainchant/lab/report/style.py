"""The page's style sheet: readable in light and dark, on paper and on narrow screens; pictures take their colours from it."""

from __future__ import annotations

from typing import Final

STYLE: Final = """
:root{color-scheme:light dark;--paper:#fdfdfb;--ink:#1d2328;--soft:#5b6670;--faint:#8b959e;--line:#d9dee2;--panel:#f3f5f4;
--good:#1a7044;--good-back:#e3f3e9;--bad:#b3261e;--bad-back:#fbe7e4;--odd:#7a5b00;--odd-back:#fbf2d6;--link:#1f5fa8;
--bar:#4a7fb5;--bar2:#c98a2b;--m0:#b3261e;--m1:#1f5fa8;--m2:#7b3fa0;--fault:#a8620c;--band:#f0b45a;
--v0:#8fbbe3;--v1:#9fd3a9;--v2:#e3c07a;--v3:#cfaee0;--v4:#8fd3cf;--v5:#e5a5a0;--bartext:#1d2328}
@media (prefers-color-scheme:dark){:root{--paper:#15191d;--ink:#e4e8ea;--soft:#a9b3ba;--faint:#7f8a92;--line:#343c43;
--panel:#1e2429;--good:#7fd3a2;--good-back:#173325;--bad:#ff9a90;--bad-back:#401d1a;--odd:#ecc95e;--odd-back:#3a3010;
--link:#86b8f0;--bar:#6ea3d8;--bar2:#d9a451;--m0:#ff8a7e;--m1:#86b8f0;--m2:#c998e6;--fault:#eaa54a;--band:#8a5a12;
--v0:#2f5f8c;--v1:#2f6b3f;--v2:#7a5a17;--v3:#65447a;--v4:#22686a;--v5:#7d3a36;--bartext:#f2f5f6}}
*{box-sizing:border-box}
body{margin:0;background:var(--paper);color:var(--ink);font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
main{max-width:1160px;margin:0 auto;padding:24px 24px 64px}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 4px;overflow-wrap:anywhere}
h2{font-size:1.25rem;margin:44px 0 8px;padding-top:14px;border-top:1px solid var(--line)}
h3{font-size:1.05rem;margin:26px 0 6px}
p{margin:6px 0 10px;max-width:84ch}
.lead,.note{color:var(--soft)}
.note{font-size:.88rem}
a{color:var(--link)}
code,pre,.mono{font-family:ui-monospace,"SF Mono",Menlo,Consolas,"DejaVu Sans Mono",monospace;font-size:.88em}
code{background:var(--panel);padding:1px 4px;border-radius:3px;overflow-wrap:anywhere}
pre{background:var(--panel);border:1px solid var(--line);border-radius:5px;padding:9px 12px;margin:8px 0;
white-space:pre-wrap;overflow-wrap:anywhere}
pre code{background:none;padding:0}
.verdict{border-radius:8px;padding:14px 18px;margin:18px 0;border-left:6px solid}
.verdict strong{font-size:1.2rem}
.verdict p{margin:2px 0 0}
.verdict.holds{background:var(--good-back);border-color:var(--good)}
.verdict.violated{background:var(--bad-back);border-color:var(--bad)}
.verdict.nothing{background:var(--odd-back);border-color:var(--odd)}
.warning{background:var(--odd-back);border-left:4px solid var(--odd);padding:8px 12px;border-radius:4px;margin:8px 0;
max-width:none}
.facts{display:flex;flex-wrap:wrap;gap:8px 28px;margin:14px 0 4px;padding:0}
.facts div{min-width:90px}
.facts dt{color:var(--soft);font-size:.8rem}
.facts dd{margin:0;font-weight:600;overflow-wrap:anywhere}
.wide{overflow-x:auto;margin:8px 0}
table{border-collapse:collapse;font-size:.92rem;min-width:50%}
caption{text-align:left;color:var(--soft);font-size:.88rem;padding-bottom:4px}
th{text-align:left;font-weight:600;color:var(--soft);font-size:.82rem;border-bottom:2px solid var(--line);
padding:4px 10px 4px 0;vertical-align:bottom}
td{border-bottom:1px solid var(--line);padding:5px 10px 5px 0;vertical-align:top}
td.n,th.n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}
tbody th{color:var(--ink);font-size:.92rem;border-bottom:1px solid var(--line);vertical-align:top;white-space:nowrap}
table.properties td:nth-child(3){min-width:15em}
table.rows td:not(:last-child){white-space:nowrap}
tr.marked td,tr.marked th{background:var(--bad-back)}
.chip{display:inline-block;border-radius:10px;padding:0 9px;font-size:.84rem;font-weight:600;white-space:nowrap}
.chip.holds{color:var(--good);background:var(--good-back)}
.chip.violated{color:var(--bad);background:var(--bad-back)}
.chip.nothing{color:var(--odd);background:var(--odd-back)}
.charts{display:flex;flex-wrap:wrap;gap:18px 32px}
.charts figure{flex:1 1 400px;max-width:540px}
figure{margin:12px 0}
figcaption{font-size:.88rem;color:var(--soft);margin-top:4px;max-width:100ch}
figcaption b{color:var(--ink)}
article{border:1px solid var(--line);border-radius:8px;padding:6px 18px 14px;margin:22px 0}
article h3{margin-top:12px}
article>details>summary{font-size:1rem;color:var(--ink)}
article>details>summary b{margin-right:6px}
h4{margin:14px 0 2px;font-size:.95rem}
.sentence{font-size:1.05rem;max-width:96ch}
ol.steps{padding:0;margin:8px 0;list-style:none;max-width:110ch}
ol.steps li{display:grid;grid-template-columns:7.2rem 1.8rem 1fr;gap:0 6px;padding:4px 0;border-bottom:1px solid var(--line)}
ol.steps .when{color:var(--soft);font-variant-numeric:tabular-nums;font-size:.88rem;text-align:right;padding-right:6px}
ol.steps .which{text-align:center}
.dot{display:inline-block;width:1.35rem;height:1.35rem;line-height:1.35rem;border-radius:50%;background:var(--bad);
color:var(--paper);font-size:.8rem;font-weight:700;text-align:center}
.because{display:block;color:var(--soft)}
.because i{font-style:normal;font-weight:600}
.conclusion{border-left:3px solid var(--line);padding-left:12px}
details{margin:10px 0}
summary{cursor:pointer;color:var(--link);font-size:.94rem}
.legend{display:flex;flex-wrap:wrap;gap:4px 20px;font-size:.85rem;color:var(--soft);align-items:center;margin:2px 0 6px}
.legend span{display:inline-flex;align-items:center;gap:6px}
.legend svg{flex:none}
dl.terms{display:grid;grid-template-columns:max-content 1fr;gap:4px 16px;max-width:100ch}
dl.terms dt{font-weight:600}
dl.terms dd{margin:0}
footer{margin-top:48px;color:var(--faint);font-size:.84rem}
svg{display:block;font-family:inherit}
svg.fluid{max-width:100%;height:auto}
svg text{fill:var(--ink);font-size:11px}
svg .name,svg .nevertext,svg .faulttext,svg .viewtext,svg .crashtext{paint-order:stroke;stroke:var(--paper);
stroke-width:3px;stroke-linejoin:round}
svg .tick{fill:var(--soft);text-anchor:middle;font-size:10.5px}
svg .tick.right,svg .plain.right{text-anchor:end}
svg .tick.end{text-anchor:end}
svg .small{font-size:11px;fill:var(--soft)}
svg .tiny{font-size:9.5px;fill:var(--soft)}
svg .axis{stroke:var(--faint);stroke-width:1}
svg .grid{stroke:var(--line);stroke-width:1}
svg .bar{fill:var(--bar)}
svg .bar.two{fill:var(--bar2)}
svg .quantile{stroke:var(--ink);stroke-width:1;stroke-dasharray:3 3}
svg .flow{fill:var(--bar);fill-opacity:.35;stroke:var(--bar);stroke-width:1}
svg .flow.two{fill:var(--bar2);fill-opacity:.45;stroke:var(--bar2)}
svg .flowtext{fill:var(--bar)}
svg .flowtext.two{fill:var(--bar2)}
svg .lane{font-weight:600;font-size:12px}
svg .life{stroke:var(--soft);stroke-width:1.5}
svg .gone{stroke:var(--line);stroke-width:1.5;stroke-dasharray:2 5}
svg .view{stroke:none}
svg .v0{fill:var(--v0)}svg .v1{fill:var(--v1)}svg .v2{fill:var(--v2)}svg .v3{fill:var(--v3)}svg .v4{fill:var(--v4)}
svg .v5{fill:var(--v5)}
svg .viewtext{font-size:10px;fill:var(--soft)}
svg .bartext{font-size:10.5px;fill:var(--bartext)}
svg .band{fill:var(--band);fill-opacity:.18}
svg .faultline{stroke:var(--fault);stroke-width:1.2;stroke-dasharray:5 3}
svg .faulttext{fill:var(--fault);font-size:11px;font-weight:600}
svg .install{stroke:var(--soft);stroke-width:2}
svg .ended{stroke:var(--soft);stroke-width:2}
svg .crash{stroke:var(--bad);stroke-width:3;stroke-linecap:round}
svg .crash.thin{stroke-width:1.5}
svg .mark{stroke:var(--soft);stroke-width:1.2}
svg .crashtext{fill:var(--bad);font-size:11px;font-weight:600}
svg .suspect{fill:var(--paper);stroke:var(--fault);stroke-width:2}
svg .left{fill:var(--paper);stroke:var(--soft);stroke-width:2}
svg .note{fill:var(--paper);stroke:var(--soft);stroke-width:1.5}
svg .stroke{fill:none;stroke-width:1.8}
svg .arrow.other.stroke{stroke:var(--faint);stroke-width:1;opacity:.65}
svg .arrow.other.fill{fill:var(--faint);opacity:.65}
svg .m0.stroke,svg .missing.m0,svg .absent.m0{stroke:var(--m0)}
svg .m1.stroke,svg .missing.m1,svg .absent.m1{stroke:var(--m1)}
svg .m2.stroke,svg .missing.m2,svg .absent.m2{stroke:var(--m2)}
svg .m0.fill,svg .send.m0,svg .deliver.m0,svg .name.m0,svg .nevertext.m0{fill:var(--m0)}
svg .m1.fill,svg .send.m1,svg .deliver.m1,svg .name.m1,svg .nevertext.m1{fill:var(--m1)}
svg .m2.fill,svg .send.m2,svg .deliver.m2,svg .name.m2,svg .nevertext.m2{fill:var(--m2)}
svg .send.other,svg .deliver.other{fill:var(--faint)}
svg .missing{stroke-width:1.4;stroke-dasharray:3 5}
svg .absent{fill:var(--paper);stroke-width:1.8}
svg .nevertext{font-size:11px;font-weight:600;text-anchor:end}
svg .name{font-size:11px;font-weight:600;text-anchor:end}
svg .halo{fill:var(--bad);fill-opacity:.16;stroke:var(--bad);stroke-width:1.3}
svg .number{fill:var(--bad)}
svg .numbertext{fill:var(--paper);font-size:11px;font-weight:700;text-anchor:middle}
@media (max-width:640px){main{padding:14px 12px 40px}article{padding:4px 10px 10px}h1{font-size:1.35rem}
ol.steps li{grid-template-columns:1.8rem 1fr}ol.steps .when{grid-column:1/-1;text-align:left}
.wide svg.fluid{max-width:none}dl.terms{grid-template-columns:1fr}}
@media print{body{font-size:11px}main{max-width:none;padding:0}article,figure,tr,.verdict{break-inside:avoid}
article{break-inside:auto}
.wide{overflow:visible}svg,svg.natural{max-width:100%;height:auto}h2,h3{break-after:avoid}a{color:inherit}}
"""
