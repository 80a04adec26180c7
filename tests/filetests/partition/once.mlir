// A call with effects is made by one device; one on a batch of arrays is made by each with its part.
// run: partition %s
module @calls attributes {mhlo.num_partitions = 2 : i32} {
  sdy.mesh @mesh = <["x"=2]>
  func.func public @main(%x: tensor<4x3x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}) -> (tensor<4x3x3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{"x"}, {}, {}]>}, tensor<3xf32> {sdy.sharding = #sdy.sharding<@mesh, [{}]>}) {
    %0 = stablehlo.custom_call @each(%x) {backend_config = "", mhlo.frontend_attributes = {num_batch_dims = "1"}} : (tensor<4x3x3xf32>) -> tensor<4x3x3xf32>
    %c = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%x init: %c) applies stablehlo.add across dimensions = [0, 1] : (tensor<4x3x3xf32>, tensor<f32>) -> tensor<3xf32>
    %2 = stablehlo.custom_call @log(%1) {backend_config = "", has_side_effect = true} : (tensor<3xf32>) -> tensor<3xf32>
    return %0, %2 : tensor<4x3x3xf32>, tensor<3xf32>
  }
}

//> HloModule calls, num_partitions=2
//>
//> %reduce_region (p0: f32[], p1: f32[]) -> f32[] {
//>   %p0 = f32[] parameter(0)
//>   %p1 = f32[] parameter(1)
//>   ROOT %add.2 = f32[] add(%p0, %p1)
//> }
//>
//> %add (p0: f32[], p1: f32[]) -> f32[] {
//>   %p0 = f32[] parameter(0)
//>   %p1 = f32[] parameter(1)
//>   ROOT %add.2 = f32[] add(%p0, %p1)
//> }
//>
//> %custom-call.4.call (p0: (f32[3])) -> f32[3] {
//>   %p0 = (f32[3]) parameter(0)
//>   %get-tuple-element.1 = f32[3] get-tuple-element(%p0), index=0
//>   ROOT %custom-call.4 = f32[3] custom-call(%get-tuple-element.1), custom_call_target="log", custom_call_has_side_effect=true
//> }
//>
//> %custom-call.4.wait (p0: (f32[3])) -> f32[3] {
//>   %p0 = (f32[3]) parameter(0)
//>   %constant.1 = f32[] constant(0)
//>   ROOT %broadcast.2 = f32[3] broadcast(%constant.1), dimensions={}
//> }
//>
//> ENTRY %main (x: f32[2,3,3]) -> (f32[2,3,3], f32[3]) {
//>   %x = f32[2,3,3] parameter(0)
//>   %custom-call.1 = f32[2,3,3] custom-call(%x), custom_call_target="each", frontend_attributes={num_batch_dims="1"}
//>   %constant.2 = f32[] constant(0)
//>   %constant.3 = f32[] constant(-0)
//>   %reduce.3 = f32[3] reduce(%x, %constant.3), dimensions={0,1}, to_apply=%reduce_region
//>   %all-reduce.5 = f32[3] all-reduce(%reduce.3), channel_id=1, replica_groups={{0,1}}, use_global_device_ids=true, to_apply=%add
//>   %broadcast.6 = f32[3] broadcast(%constant.2), dimensions={}
//>   %add.7 = f32[3] add(%broadcast.6, %all-reduce.5)
//>   %tuple.8 = (f32[3]) tuple(%add.7)
//>   %constant.9 = s32[2] constant({1, 0})
//>   %partition-id.10 = u32[] partition-id()
//>   %dynamic-slice.11 = s32[1] dynamic-slice(%constant.9, %partition-id.10), dynamic_slice_sizes={1}
//>   %reshape.12 = s32[] reshape(%dynamic-slice.11)
//>   %constant.13 = s32[] constant(1)
//>   %compare.14 = pred[] compare(%reshape.12, %constant.13), direction=EQ
//>   %conditional.15 = f32[3] conditional(%compare.14, %tuple.8, %tuple.8), true_computation=%custom-call.4.call, false_computation=%custom-call.4.wait
//>   %collective-broadcast.16 = f32[3] collective-broadcast(%conditional.15), channel_id=2, replica_groups={{0,1}}
//>   ROOT %tuple.17 = (f32[2,3,3], f32[3]) tuple(%custom-call.1, %collective-broadcast.16)
//> }
