use tegula_layout::assign::*;
use tegula_target::Chip;
#[test]
fn debug() {
    let path = std::env::var("DBG").unwrap();
    let text = std::fs::read_to_string(path).unwrap();
    let module = tegula_ir::parse_module(&text).unwrap();
    let module = tegula_fusion::expand(&module).unwrap();
    let machine = Machine::tpu(&Chip::by_name("v5e").unwrap()).unwrap();
    let why = std::env::var("WHY").unwrap_or_default();
    let a = assign(&module, &machine, &|n| n == why).unwrap();
    println!("cost {} best {}", a.cost, a.is_best);
    for r in &a.regions {
        println!("region {:?}", r.of);
        for k in &r.kernels {
            for &v in &a.program.nodes[k.root].results {
                let n = name_of(&module, &a.program, v).unwrap();
                println!(
                    "{n} {} {} product {} view {} bitcast {} reads {}",
                    a.program.values[v].shape,
                    a.layouts.get(&v).map(|l| l.to_string()).unwrap_or_default(),
                    k.has_product,
                    k.is_view,
                    k.is_bitcast,
                    k.reads
                        .iter()
                        .map(|r| format!(
                            "{}{}{}",
                            name_of(&module, &a.program, r.value).unwrap_or("c"),
                            if r.copied { "*" } else { "" },
                            r.layout.as_ref().map(|l| l.to_string()).unwrap_or_default()
                        ))
                        .collect::<Vec<_>>()
                        .join(" ")
                );
            }
        }
    }
    for (_, e) in &a.explanations {
        println!("{e:#?}");
    }
}
