// One of each form that the reader and the printer share.
module @forms attributes {mhlo.num_partitions = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3xf32>, %arg1: tensor<3x4xf32>, %arg2: tensor<i32>, %arg3: tensor<1x8x8x3xf32>, %arg4: tensor<3x3x3x4xf32>) -> (tensor<2x4xf32>, tensor<1x4x4x4xf32>, tensor<f32>, tensor<6xf32>) {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %c = stablehlo.constant dense<[true, false]> : tensor<2xi1>
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [1] x [0], precision = [HIGHEST, DEFAULT], algorithm = <lhs_precision_type = f32, rhs_precision_type = f32, accumulation_type = f32, lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = 1, allow_imprecise_accumulation = false> : (tensor<2x3xf32>, tensor<3x4xf32>) -> tensor<2x4xf32>
    %1 = stablehlo.convolution(%arg3, %arg4) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[1, 0], [1, 0]], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64} : (tensor<1x8x8x3xf32>, tensor<3x3x3x4xf32>) -> tensor<1x4x4x4xf32>
    %2 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [0, 1] : (tensor<2x4xf32>, tensor<f32>) -> tensor<f32>
    %3:2 = stablehlo.reduce(%0 init: %cst), (%0 init: %cst) across dimensions = [0] : (tensor<2x4xf32>, tensor<2x4xf32>, tensor<f32>, tensor<f32>) -> (tensor<4xf32>, tensor<4xf32>)
     reducer(%arg5: tensor<f32>, %arg7: tensor<f32>) (%arg6: tensor<f32>, %arg8: tensor<f32>) {
      %20 = stablehlo.maximum %arg5, %arg7 : tensor<f32>
      %21 = stablehlo.minimum %arg6, %arg8 : tensor<f32>
      stablehlo.return %20, %21 : tensor<f32>, tensor<f32>
    }
    %4 = stablehlo.slice %arg0 [0:2, 1:3:2] : (tensor<2x3xf32>) -> tensor<2x1xf32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [0, 1] : (tensor<2x1xf32>) -> tensor<2x4xf32>
    %6 = stablehlo.dynamic_slice %0, %arg2, %arg2, sizes = [2, 4] : (tensor<2x4xf32>, tensor<i32>, tensor<i32>) -> tensor<2x4xf32>
    %7 = stablehlo.pad %0, %cst, low = [0, -1], high = [0, 1], interior = [0, 0] : (tensor<2x4xf32>, tensor<f32>) -> tensor<2x4xf32>
    %8 = stablehlo.concatenate %3#0, %3#1, dim = 0 : (tensor<4xf32>, tensor<4xf32>) -> tensor<8xf32>
    %9 = stablehlo.reverse %8, dims = [0] : tensor<8xf32>
    %10 = stablehlo.slice %9 [0:6] : (tensor<8xf32>) -> tensor<6xf32>
    %11 = stablehlo.reduce_precision %10, format = e5m10 : tensor<6xf32>
    %12 = stablehlo.iota dim = 0 : tensor<2x4xi32>
    %13 = stablehlo.convert %12 : (tensor<2x4xi32>) -> tensor<2x4xf32>
    %14 = stablehlo.clamp %cst, %5, %13 : (tensor<f32>, tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xf32>
    %15 = stablehlo.compare GT, %14, %6, TOTALORDER : (tensor<2x4xf32>, tensor<2x4xf32>) -> tensor<2x4xi1>
    %16 = stablehlo.select %15, %6, %7 : tensor<2x4xi1>, tensor<2x4xf32>
    %17:2 = stablehlo.optimization_barrier %16, %11 : tensor<2x4xf32>, tensor<6xf32>
    %18 = "stablehlo.case"(%arg2) ({
      stablehlo.return %2 : tensor<f32>
    }, {
      %20 = chlo.erf %2 : tensor<f32> -> tensor<f32>
      stablehlo.return %20 : tensor<f32>
    }) : (tensor<i32>) -> tensor<f32>
    %19 = call @twice(%18) : (tensor<f32>) -> tensor<f32>
    return %17#0, %1, %19, %17#1 : tensor<2x4xf32>, tensor<1x4x4x4xf32>, tensor<f32>, tensor<6xf32>
  }
  func.func private @twice(%arg0: tensor<f32>) -> tensor<f32> {
    %0 = stablehlo.add %arg0, %arg0 : tensor<f32>
    return %0 : tensor<f32>
  }
}
