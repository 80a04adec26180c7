// The product stays apart as the program wants it: no all-reduce. The second result, an array that is cut, becomes
// partial results: the part of each device in zeros.
// run: partition %s
module @partial attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {"x"}]>}, %w: tensor<8x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}]>}) -> (tensor<4x2xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}, tensor<4x8xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}, {}], unreduced={"x"}>}) {
    %0 = stablehlo.dot_general %x, %w, contracting_dims = [1] x [0] : (tensor<4x8xf32>, tensor<8x2xf32>) -> tensor<4x2xf32>
    %1 = sdy.sharding_constraint %0 <@mesh, [{}, {}], unreduced={"x"}> : tensor<4x2xf32>
    return %1, %x : tensor<4x2xf32>, tensor<4x8xf32>
  }
}

//> HloModule partial, num_partitions=2
//>
//> ENTRY %main (x: f32[4,4], w: f32[4,2]) -> (f32[4,2], f32[4,8]) {
//>   %x = f32[4,4] parameter(0)
//>   %w = f32[4,2] parameter(1)
//>   %dot.2 = f32[4,2] dot(%x, %w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
//>   %constant.3 = f32[] constant(0)
//>   %broadcast.4 = f32[4,8] broadcast(%constant.3), dimensions={}
//>   %constant.5 = s32[2] constant({0, 4})
//>   %partition-id.6 = u32[] partition-id()
//>   %dynamic-slice.7 = s32[1] dynamic-slice(%constant.5, %partition-id.6), dynamic_slice_sizes={1}
//>   %reshape.8 = s32[] reshape(%dynamic-slice.7)
//>   %constant.9 = s32[] constant(0)
//>   %dynamic-update-slice.10 = f32[4,8] dynamic-update-slice(%broadcast.4, %x, %constant.9, %reshape.8)
//>   ROOT %tuple.11 = (f32[4,2], f32[4,8]) tuple(%dot.2, %dynamic-update-slice.10)
//> }
