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
