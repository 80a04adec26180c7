// Functions that check their own results; those whose names begin with `fails_` must fail.

func.func @equal_constant() {
  %0 = stablehlo.constant dense<[1, -2, 3]> : tensor<3xi32>
  %1 = stablehlo.multiply %0, %0 : tensor<3xi32>
  check.expect_eq_const %1, dense<[1, 4, 9]> : tensor<3xi32>
  func.return
}

func.func @fails_equal_constant() {
  %0 = stablehlo.constant dense<[1, -2, 3]> : tensor<3xi32>
  check.expect_eq_const %0, dense<[1, -2, 4]> : tensor<3xi32>
  func.return
}

func.func @several() {
  %0 = stablehlo.constant dense<[true, false]> : tensor<2xi1>
  %1 = stablehlo.not %0 : tensor<2xi1>
  %2 = stablehlo.not %1 : tensor<2xi1>
  check.expect_eq_const %1, dense<[false, true]> : tensor<2xi1>
  check.expect_eq %0, %2 : tensor<2xi1>
  func.return
}

func.func @near() {
  %0 = stablehlo.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %1 = stablehlo.exponential %0 : tensor<2xf32>
  check.expect_almost_eq_const %1, dense<[1.0, 2.71828]> : tensor<2xf32>
  func.return
}

func.func @fails_near() {
  %0 = stablehlo.constant dense<[0.0, 1.0]> : tensor<2xf32>
  %1 = stablehlo.exponential %0 : tensor<2xf32>
  check.expect_almost_eq_const %1, dense<[1.0, 2.719]> : tensor<2xf32>
  func.return
}

// -----

func.func private @expected() -> tensor<2xf64> {
  %0 = stablehlo.constant dense<[1.4142135623730951, 3.0]> : tensor<2xf64>
  func.return %0 : tensor<2xf64>
}

func.func @close() {
  %0 = stablehlo.constant dense<[2.0, 9.0]> : tensor<2xf64>
  %1 = stablehlo.sqrt %0 : tensor<2xf64>
  %2 = func.call @expected() : () -> tensor<2xf64>
  check.expect_close %1, %2, max_ulp_difference = 0 : tensor<2xf64>, tensor<2xf64>
  stablehlo.custom_call @check.expect_close(%1, %2) {has_side_effect = true} : (tensor<2xf64>, tensor<2xf64>) -> ()
  func.return
}

func.func @fails_close() {
  %0 = stablehlo.constant dense<[2.0, 9.0000001]> : tensor<2xf64>
  %1 = stablehlo.sqrt %0 : tensor<2xf64>
  %2 = func.call @expected() : () -> tensor<2xf64>
  check.expect_close %1, %2, max_ulp_difference = 3 : tensor<2xf64>, tensor<2xf64>
  func.return
}

func.func @tails_of_special_functions() {
  %0 = stablehlo.constant dense<[0.5, -2.0, 3.0]> : tensor<3xf32>
  %1 = chlo.erfc %0 : tensor<3xf32> -> tensor<3xf32>
  %2 = stablehlo.constant dense<[0.479500115, 1.99532223, 2.20904961e-05]> : tensor<3xf32>
  check.expect_close %1, %2, max_ulp_difference = 3 : tensor<3xf32>, tensor<3xf32>
  %3 = stablehlo.constant dense<[0.5, -2.0, 10.0]> : tensor<3xf64>
  %4 = chlo.erfc %3 : tensor<3xf64> -> tensor<3xf64>
  check.expect_almost_eq_const %4, dense<[0.4795001221869535, 1.9953222650189528, 2.088487583762545e-45]> : tensor<3xf64>, tolerance = 1.0e-15
  %5 = chlo.bessel_i1e %3 : tensor<3xf64> -> tensor<3xf64>
  check.expect_almost_eq_const %5, dense<[0.15642080318487173, -0.2152692892489377, 0.1212626813844555]> : tensor<3xf64>, tolerance = 1.0e-15
  %6 = stablehlo.constant dense<[2.0, 4.0, 1.5]> : tensor<3xf64>
  %7 = stablehlo.constant dense<[1.0, 0.25, 30.0]> : tensor<3xf64>
  %8 = chlo.zeta %6, %7 : tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>
  check.expect_almost_eq_const %8, dense<[1.6449340668482266, 256.4636906681982, 0.3682166281870004]> : tensor<3xf64>, tolerance = 1.0e-12
  %9 = stablehlo.constant dense<[0.0, 1.0, 2.0]> : tensor<3xf64>
  %10 = chlo.polygamma %9, %7 : tensor<3xf64>, tensor<3xf64> -> tensor<3xf64>
  check.expect_almost_eq_const %10, dense<[-0.57721566490153287, 17.197329154507113, -0.0011487652037285997]> : tensor<3xf64>, tolerance = 1.0e-12
  func.return
}

func.func @inverse_tangents() {
  %0 = stablehlo.constant dense<[(0.5, -0.25), (-1.0e300, 1.0)]> : tensor<2xcomplex<f64>>
  %1 = chlo.atan %0 : tensor<2xcomplex<f64>> -> tensor<2xcomplex<f64>>
  check.expect_almost_eq_const %1, dense<[(0.4842544903299662, -0.20058661813123432), (-1.5707963267948966, 0.0)]> : tensor<2xcomplex<f64>>, tolerance = 1.0e-15
  func.return
}

func.func @complex_numbers() {
  %0 = stablehlo.constant dense<[(1.0, 2.0), (0.0, -1.0), (3.0, 0.0)]> : tensor<3xcomplex<f32>>
  %1 = stablehlo.constant dense<[(1.0, 1.0), (0.0, 4.0), (2.0, 9.0)]> : tensor<3xcomplex<f32>>
  %2 = stablehlo.maximum %0, %1 : tensor<3xcomplex<f32>>
  check.expect_eq_const %2, dense<[(1.0, 2.0), (0.0, 4.0), (3.0, 0.0)]> : tensor<3xcomplex<f32>>
  %3 = stablehlo.minimum %0, %1 : tensor<3xcomplex<f32>>
  check.expect_eq_const %3, dense<[(1.0, 1.0), (0.0, -1.0), (2.0, 9.0)]> : tensor<3xcomplex<f32>>
  %4 = stablehlo.convert %0 : (tensor<3xcomplex<f32>>) -> tensor<3xi32>
  check.expect_eq_const %4, dense<[1, 0, 3]> : tensor<3xi32>
  %5 = stablehlo.constant dense<[(0.0, 2.0), (0.0, 0.0)]> : tensor<2xcomplex<f32>>
  %6 = stablehlo.convert %5 : (tensor<2xcomplex<f32>>) -> tensor<2xi1>
  check.expect_eq_const %6, dense<[false, false]> : tensor<2xi1>
  %7 = chlo.square %0 : tensor<3xcomplex<f32>> -> tensor<3xcomplex<f32>>
  check.expect_eq_const %7, dense<[(-3.0, 4.0), (-1.0, 0.0), (9.0, 0.0)]> : tensor<3xcomplex<f32>>
  func.return
}

func.func @contractions_by_letters() {
  %0 = stablehlo.constant dense<[[1.0, 2.0], [3.0, 4.0]]> : tensor<2x2xf32>
  %1 = stablehlo.constant dense<[[5.0, 6.0, 7.0], [8.0, 9.0, 10.0]]> : tensor<2x3xf32>
  %2 = "stablehlo.einsum"(%0, %1) {einsum_config = "ab,bc->ca"} : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<3x2xf32>
  check.expect_eq_const %2, dense<[[21.0, 47.0], [24.0, 54.0], [27.0, 61.0]]> : tensor<3x2xf32>
  %3 = "stablehlo.einsum"(%0, %1) {einsum_config = "ab,ac->a"} : (tensor<2x2xf32>, tensor<2x3xf32>) -> tensor<2xf32>
  check.expect_eq_const %3, dense<[54.0, 189.0]> : tensor<2xf32>
  %4 = "stablehlo.unary_einsum"(%1) {einsum_config = "ab->b"} : (tensor<2x3xf32>) -> tensor<3xf32>
  check.expect_eq_const %4, dense<[13.0, 15.0, 17.0]> : tensor<3xf32>
  func.return
}

func.func @selection_along_a_dimension() {
  %0 = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %1 = stablehlo.constant dense<[2, 0]> : tensor<2xi32>
  %2 = "stablehlo.torch_index_select"(%0, %1) {dim = 1 : i64, batch_dims = 0 : i64} : (tensor<2x3xi32>, tensor<2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %2, dense<[[3, 1], [6, 4]]> : tensor<2x2xi32>
  %3 = stablehlo.constant dense<[[2, 0], [1, 1]]> : tensor<2x2xi32>
  %4 = "stablehlo.torch_index_select"(%0, %3) {dim = 1 : i64, batch_dims = 1 : i64} : (tensor<2x3xi32>, tensor<2x2xi32>) -> tensor<2x2xi32>
  check.expect_eq_const %4, dense<[[3, 1], [5, 5]]> : tensor<2x2xi32>
  func.return
}

func.func @parts_that_are_the_whole() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = sdy.manual_computation(%0) in_shardings=[<@mesh, [{}]>] out_shardings=[<@mesh, [{}]>] manual_axes={} (%arg0: tensor<2xf32>) {
    %2 = stablehlo.add %arg0, %arg0 : tensor<2xf32>
    sdy.return %2 : tensor<2xf32>
  } : (tensor<2xf32>) -> tensor<2xf32>
  check.expect_eq_const %1, dense<[2.0, 4.0]> : tensor<2xf32>
  func.return
}

func.func @scan_from_the_end() {
  %0 = stablehlo.constant dense<[[1, 2, 3], [4, 5, 6]]> : tensor<2x3xi32>
  %1 = stablehlo.constant dense<0> : tensor<2xi32>
  %2:2 = chlo.scan(%0) inits(%1) dimension=1 attributes {is_reverse = true} {
  ^bb0(%arg0: tensor<2xi32>, %arg1: tensor<2xi32>):
    %3 = stablehlo.add %arg0, %arg1 : tensor<2xi32>
    %4 = stablehlo.multiply %3, %3 : tensor<2xi32>
    stablehlo.return %4, %3 : tensor<2xi32>, tensor<2xi32>
  } : (tensor<2x3xi32>, tensor<2xi32>) -> (tensor<2x3xi32>, tensor<2xi32>)
  check.expect_eq_const %2#0, dense<[[36, 25, 9], [225, 121, 36]]> : tensor<2x3xi32>
  check.expect_eq_const %2#1, dense<[6, 15]> : tensor<2xi32>
  func.return
}

func.func @groups_of_terms() {
  %0 = stablehlo.constant dense<[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]> : tensor<2x3xf32>
  %1 = stablehlo.constant dense<[[1.0], [10.0], [100.0]]> : tensor<3x1xf32>
  %2 = stablehlo.constant dense<[1, 2]> : tensor<2xi32>
  %3 = "chlo.ragged_dot"(%0, %1, %2) {
    ragged_dot_dimension_numbers = #chlo.ragged_dot<
      lhs_batching_dimensions = [], rhs_batching_dimensions = [],
      lhs_contracting_dimensions = [1], rhs_contracting_dimensions = [0],
      lhs_ragged_dimensions = [1], rhs_group_dimensions = []>,
    precision_config = [#chlo<precision DEFAULT>, #chlo<precision DEFAULT>]
  } : (tensor<2x3xf32>, tensor<3x1xf32>, tensor<2xi32>) -> tensor<2x2x1xf32>
  check.expect_eq_const %3, dense<[[[1.0], [4.0]], [[320.0], [650.0]]]> : tensor<2x2x1xf32>
  func.return
}

// -----

func.func @to_all(%arg0: tensor<2x1x2xi32>) -> tensor<1x1x4xi32> {
  %0 = "stablehlo.all_to_all"(%arg0) {
    split_dimension = 0 : i64, concat_dimension = 2 : i64, split_count = 2 : i64,
    replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>
  } : (tensor<2x1x2xi32>) -> tensor<1x1x4xi32>
  func.return %0 : tensor<1x1x4xi32>
}

func.func @parts_that_are_joined_along_another_dimension() {
  %0 = stablehlo.constant dense<[[[1, 2]], [[3, 4]]]> : tensor<2x1x2xi32>
  %1 = stablehlo.constant dense<[[[5, 6]], [[7, 8]]]> : tensor<2x1x2xi32>
  %2:2 = "interpreter.run_parallel"(%0, %1) {
    programs = [[@to_all], [@to_all]]
  } : (tensor<2x1x2xi32>, tensor<2x1x2xi32>) -> (tensor<1x1x4xi32>, tensor<1x1x4xi32>)
  check.expect_eq_const %2#0, dense<[[[1, 2, 5, 6]]]> : tensor<1x1x4xi32>
  check.expect_eq_const %2#1, dense<[[[3, 4, 7, 8]]]> : tensor<1x1x4xi32>
  func.return
}

// -----

func.func @to_one(%arg0: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.collective_reduce"(%arg0) ({
  ^bb0(%arg1: tensor<f32>, %arg2: tensor<f32>):
    %1 = stablehlo.multiply %arg1, %arg2 : tensor<f32>
    stablehlo.return %1 : tensor<f32>
  }) {
    replica_groups = dense<[[2, 0], [1, -1]]> : tensor<2x2xi64>
  } : (tensor<2xf32>) -> tensor<2xf32>
  func.return %0 : tensor<2xf32>
}

func.func @only_the_first_of_a_group_has_the_product() {
  %0 = stablehlo.constant dense<[2.0, 3.0]> : tensor<2xf32>
  %1 = stablehlo.constant dense<[4.0, 5.0]> : tensor<2xf32>
  %2 = stablehlo.constant dense<[6.0, 7.0]> : tensor<2xf32>
  %3:3 = "interpreter.run_parallel"(%0, %1, %2) {
    programs = [[@to_one], [@to_one], [@to_one]]
  } : (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>, tensor<2xf32>)
  check.expect_eq_const %3#0, dense<[0.0, 0.0]> : tensor<2xf32>
  check.expect_eq_const %3#1, dense<[4.0, 5.0]> : tensor<2xf32>
  check.expect_eq_const %3#2, dense<[12.0, 21.0]> : tensor<2xf32>
  func.return
}

// -----

func.func @to_roots(%arg0: tensor<i32>, %arg1: tensor<2xi32>, %arg2: tensor<2xi32>) -> (tensor<i32>, tensor<2xi32>) {
  %0:2 = "stablehlo.collective_reduce"(%arg0, %arg1, %arg2) ({
  ^bb0(%arg3: tensor<i32>, %arg4: tensor<i32>):
    %1 = stablehlo.add %arg3, %arg4 : tensor<i32>
    stablehlo.return %1 : tensor<i32>
  }) {
    replica_groups = dense<[[1, 0]]> : tensor<1x2xi64>, has_dynamic_root
  } : (tensor<i32>, tensor<2xi32>, tensor<2xi32>) -> (tensor<i32>, tensor<2xi32>)
  func.return %0#0, %0#1 : tensor<i32>, tensor<2xi32>
}

func.func @roots_are_positions_in_the_group() {
  %0 = stablehlo.constant dense<1> : tensor<i32>
  %1 = stablehlo.constant dense<[2, 3]> : tensor<2xi32>
  %2 = stablehlo.constant dense<[1, 0]> : tensor<2xi32>
  %3:4 = "interpreter.run_parallel"(%0, %1, %2, %0, %1, %2) {
    programs = [[@to_roots], [@to_roots]]
  } : (tensor<i32>, tensor<2xi32>, tensor<2xi32>, tensor<i32>, tensor<2xi32>, tensor<2xi32>)
      -> (tensor<i32>, tensor<2xi32>, tensor<i32>, tensor<2xi32>)
  check.expect_eq_const %3#0, dense<2> : tensor<i32>
  check.expect_eq_const %3#1, dense<[0, 0]> : tensor<2xi32>
  check.expect_eq_const %3#2, dense<0> : tensor<i32>
  check.expect_eq_const %3#3, dense<[4, 6]> : tensor<2xi32>
  func.return
}

// -----

func.func @beside(%arg0: tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>) {
  %0 = "stablehlo.async_start"(%arg0) ({
  ^bb0(%arg1: tensor<2xf32>):
    %1 = "stablehlo.all_gather"(%arg1) {
      all_gather_dim = 0 : i64, replica_groups = dense<[[0, 1]]> : tensor<1x2xi64>
    } : (tensor<2xf32>) -> tensor<4xf32>
    "stablehlo.return"(%1) : (tensor<4xf32>) -> ()
  }) : (tensor<2xf32>) -> !stablehlo.future<tensor<4xf32>>
  %2 = stablehlo.add %arg0, %arg0 : tensor<2xf32>
  %3 = "stablehlo.async_done"(%0) : (!stablehlo.future<tensor<4xf32>>) -> tensor<4xf32>
  func.return %3, %2 : tensor<4xf32>, tensor<2xf32>
}

func.func @what_starts_beside_other_work_is_done_later() {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = stablehlo.constant dense<[3.0, 4.0]> : tensor<2xf32>
  %2:4 = "interpreter.run_parallel"(%0, %1) {
    programs = [[@beside], [@beside]]
  } : (tensor<2xf32>, tensor<2xf32>) -> (tensor<4xf32>, tensor<2xf32>, tensor<4xf32>, tensor<2xf32>)
  check.expect_eq_const %2#0, dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  check.expect_eq_const %2#1, dense<[2.0, 4.0]> : tensor<2xf32>
  check.expect_eq_const %2#2, dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>
  check.expect_eq_const %2#3, dense<[6.0, 8.0]> : tensor<2xf32>
  func.return
}

// -----

func.func @numbers_and_their_bits() {
  %0 = stablehlo.constant dense<[[5], [-128]]> : tensor<2x1xi8>
  %1 = stablehlo.bitcast_convert %0 : (tensor<2x1xi8>) -> tensor<2x1x8xi1>
  check.expect_eq_const %1, dense<[[[true, false, true, false, false, false, false, false]],
                                   [[false, false, false, false, false, false, false, true]]]> : tensor<2x1x8xi1>
  %2 = stablehlo.bitcast_convert %1 : (tensor<2x1x8xi1>) -> tensor<2x1xi8>
  check.expect_eq_const %2, dense<[[5], [-128]]> : tensor<2x1xi8>
  %3 = stablehlo.constant dense<[1.5, -0.0, 3.0e38]> : tensor<3xf32>
  %4 = stablehlo.bitcast_convert %3 : (tensor<3xf32>) -> tensor<3x32xi1>
  %5 = stablehlo.bitcast_convert %4 : (tensor<3x32xi1>) -> tensor<3xi32>
  check.expect_eq_const %5, dense<[0x3FC00000, 0x80000000, 0x7F61B1E6]> : tensor<3xi32>
  func.return
}

// -----

func.func @fed(%arg0: !stablehlo.token) -> (tensor<2xf32>, tensor<i32>, tensor<2xf32>, !stablehlo.token) {
  %0:3 = "stablehlo.infeed"(%arg0) : (!stablehlo.token) -> (tensor<2xf32>, tensor<i32>, !stablehlo.token)
  %1 = "stablehlo.outfeed"(%0#0, %0#2) : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
  %2:3 = "stablehlo.infeed"(%1) : (!stablehlo.token) -> (tensor<2xf32>, tensor<i32>, !stablehlo.token)
  func.return %0#0, %2#1, %2#0, %2#2 : tensor<2xf32>, tensor<i32>, tensor<2xf32>, !stablehlo.token
}
func.func @first() -> (tensor<2xf32>, tensor<i32>) {
  %0 = stablehlo.constant dense<[1.0, 2.0]> : tensor<2xf32>
  %1 = stablehlo.constant dense<3> : tensor<i32>
  func.return %0, %1 : tensor<2xf32>, tensor<i32>
}
func.func @second() -> (tensor<2xf32>, tensor<i32>) {
  %0 = stablehlo.constant dense<[4.0, 5.0]> : tensor<2xf32>
  %1 = stablehlo.constant dense<6> : tensor<i32>
  func.return %0, %1 : tensor<2xf32>, tensor<i32>
}

func.func @entries_are_fed_in_their_order() {
  %0 = stablehlo.after_all : !stablehlo.token
  %1:4 = "interpreter.run_parallel"(%0) {
    infeed = [@first, @second], programs = [[@fed]]
  } : (!stablehlo.token) -> (tensor<2xf32>, tensor<i32>, tensor<2xf32>, !stablehlo.token)
  check.expect_eq_const %1#0, dense<[1.0, 2.0]> : tensor<2xf32>
  check.expect_eq_const %1#1, dense<6> : tensor<i32>
  check.expect_eq_const %1#2, dense<[4.0, 5.0]> : tensor<2xf32>
  func.return
}

// -----

func.func @asks(%arg0: tensor<2xf32>, %arg1: !stablehlo.token) -> tensor<2xf32> {
  %0 = "stablehlo.send"(%arg0, %arg1) {
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true
  } : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
  %1:2 = "stablehlo.recv"(%0) {
    channel_handle = #stablehlo.channel_handle<handle = 2, type = 3>, is_host_transfer = true
  } : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
  func.return %1#0 : tensor<2xf32>
}
func.func @answers(%arg0: !stablehlo.token) -> !stablehlo.token {
  %0:2 = "stablehlo.recv"(%arg0) {
    channel_handle = #stablehlo.channel_handle<handle = 1, type = 3>, is_host_transfer = true
  } : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
  %1 = stablehlo.multiply %0#0, %0#0 : tensor<2xf32>
  %2 = "stablehlo.send"(%1, %0#1) {
    channel_handle = #stablehlo.channel_handle<handle = 2, type = 2>, is_host_transfer = true
  } : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
  func.return %2 : !stablehlo.token
}

func.func @unlike_programs_send_to_each_other() {
  %0 = stablehlo.constant dense<[3.0, -2.0]> : tensor<2xf32>
  %1 = stablehlo.after_all : !stablehlo.token
  %2:2 = "interpreter.run_parallel"(%0, %1, %1) {
    programs = [[@asks], [@answers]]
  } : (tensor<2xf32>, !stablehlo.token, !stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)
  check.expect_eq_const %2#0, dense<[9.0, 4.0]> : tensor<2xf32>
  func.return
}
